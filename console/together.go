package console

// Others is the name of the unit that stands for all units beyond MaxUnits.
const Others = "(others)"

// together returns units, of which there is at least one, as one.
func together(units []Unit) Unit {
	sum := Unit{Name: Others, Kind: units[0].Kind}
	var cost Cost
	var received Responses
	counted := false
	for i := range units {
		u := &units[i]
		if u.Kind != sum.Kind {
			sum.Kind = "others"
		}
		if u.Responses != nil {
			counted = true
			received.add(*u.Responses)
		}
		if u.Cost != nil {
			cost.add(*u.Cost)
		}
		sum.add(u)
	}
	if sum.Cost = cost.orNil(); counted {
		sum.Responses = &received
	}
	return sum
}

// add adds the numbers of v to u, but for Responses and Cost.
func (u *Unit) add(v *Unit) {
	u.Requests += v.Requests
	u.Avoided.add(v.Avoided)
	u.Refused.add(v.Refused)
	for _, n := range [...]struct {
		to *uint64
		v  uint64
	}{
		{&u.Missed, v.Missed}, {&u.MissedErrors, v.MissedErrors}, {&u.Unanswered, v.Unanswered}, {&u.Left, v.Left},
		{&u.Calls, v.Calls}, {&u.Refreshes, v.Refreshes}, {&u.Failed, v.Failed}, {&u.Timeouts, v.Timeouts}, {&u.Panics, v.Panics},
		{&u.Abandoned, v.Abandoned}, {&u.StaleOnError, v.StaleOnError}, {&u.Evicted, v.Evicted},
	} {
		*n.to += n.v
	}
	u.Entries += v.Entries
	u.Flights += v.Flights
	u.Running += v.Running
	u.Refreshing += v.Refreshing
	u.Waiting += v.Waiting
	u.Stuck += v.Stuck
	u.RequestTime = u.RequestTime.Add(v.RequestTime)
	u.WaitTime = u.WaitTime.Add(v.WaitTime)
	u.CallTime = u.CallTime.Add(v.CallTime)
}

func (a *Avoided) add(b Avoided) {
	a.Hits += b.Hits
	a.Stale += b.Stale
	a.Negative += b.Negative
	a.Failures += b.Failures
	a.Joined += b.Joined
	a.Validated += b.Validated
	a.Fleet += b.Fleet
}

func (r *Responses) add(b Responses) {
	r.Switched += b.Switched
	r.Success += b.Success
	r.Redirect += b.Redirect
	r.ClientError += b.ClientError
	r.ServerError += b.ServerError
	r.Broken += b.Broken
	r.Left += b.Left
}

// add adds units of cost. Their prices can differ, so the sum has none.
func (c *Cost) add(b Cost) {
	c.Spent += b.Spent
	c.Hits += b.Hits
	c.Joined += b.Joined
	c.Fleet += b.Fleet
	c.Refused += b.Refused
}
