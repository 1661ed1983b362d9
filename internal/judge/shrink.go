package judge

import (
	"net/http"
	"reflect"
	"slices"
)

// Shrink makes h shorter as long as fails reports that it still has its fault.
func Shrink(h History, fails func(History) bool) History {
	for again := true; again; {
		again = false
		for i := 0; ; i++ {
			smaller, ok := reduce(h, i)
			if !ok {
				break
			}
			if !reflect.DeepEqual(smaller, h) && fails(smaller) {
				h, again = smaller, true
				i-- // what follows has moved up
			}
		}
	}
	return h
}

// reduce returns the i-th way to make h smaller, and false after the last.
func reduce(h History, i int) (History, bool) {
	h = clone(h)
	nth := func() bool { i--; return i == -1 }
	for s := range h.Steps {
		for r := range h.Steps[s].Requests {
			if nth() {
				h.Steps[s].Requests = append(h.Steps[s].Requests[:r], h.Steps[s].Requests[r+1:]...)
				return tidy(h), true
			}
		}
		if nth() {
			h.Steps[s].Wait = 0
			return h, true
		}
		if nth() {
			h.Steps[s].Purge = false
			return h, true
		}
	}
	for s := range h.Steps {
		for r := range h.Steps[s].Requests {
			request := &h.Steps[s].Requests[r]
			for f := range request.Fields {
				if nth() {
					request.Fields = append(request.Fields[:f], request.Fields[f+1:]...)
					return h, true
				}
			}
			if nth() {
				request.Instance = 0
				return h, true
			}
			if nth() {
				if request.Method == http.MethodHead {
					request.Method = http.MethodGet
				}
				return h, true
			}
			if nth() {
				request.Client = 0
				return h, true
			}
		}
	}
	for _, name := range namesIn(h) {
		if nth() {
			for s := range h.Steps {
				for r := range h.Steps[s].Requests {
					request := &h.Steps[s].Requests[r]
					request.Fields = dropField(request.Fields, name)
				}
			}
			return h, true
		}
	}
	var zeros []reflect.Value
	for _, v := range []reflect.Value{reflect.ValueOf(&h.Route).Elem(), reflect.ValueOf(&h.Origin).Elem()} {
		for f := range v.NumField() {
			zeros = append(zeros, v.Field(f))
		}
	}
	for c := range h.Clients {
		v := reflect.ValueOf(&h.Clients[c]).Elem()
		zeros = append(zeros, v.FieldByName("Certificate"), v.FieldByName("Identity"))
	}
	for _, v := range zeros {
		if nth() {
			v.SetZero()
			h.Route.Force = h.Route.Force && h.Route.TTL > 0
			return h, true
		}
	}
	if nth() {
		for last := len(h.Clients) - 1; last > 0 && !uses(h, last); last-- {
			h.Clients = h.Clients[:last]
		}
		return h, true
	}
	for c := 1; c < len(h.Clients); c++ {
		if nth() {
			h.Clients[c].Address = h.Clients[0].Address
			return h, true
		}
	}
	return h, false
}

// namesIn returns the names of all fields of h, in order.
func namesIn(h History) []string {
	var names []string
	for _, s := range h.Steps {
		for _, r := range s.Requests {
			for _, f := range r.Fields {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// uses reports whether a request is of that client.
func uses(h History, client int) bool {
	for _, s := range h.Steps {
		for _, r := range s.Requests {
			if r.Client == client {
				return true
			}
		}
	}
	return false
}

func clone(h History) History {
	h.Clients = append([]Client(nil), h.Clients...)
	h.Steps = append([]Step(nil), h.Steps...)
	for s := range h.Steps {
		h.Steps[s].Requests = append([]Request(nil), h.Steps[s].Requests...)
		for r := range h.Steps[s].Requests {
			fields := h.Steps[s].Requests[r].Fields
			h.Steps[s].Requests[r].Fields = append([]Field(nil), fields...)
		}
	}
	return h
}

// tidy removes steps without requests. Their wait goes to the next.
func tidy(h History) History {
	var left []Step
	for i, s := range h.Steps {
		switch {
		case len(s.Requests) > 0:
			left = append(left, s)
		case i+1 < len(h.Steps):
			h.Steps[i+1].Wait += s.Wait
		}
	}
	h.Steps = left
	return h
}
