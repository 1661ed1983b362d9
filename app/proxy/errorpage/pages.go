package errorpage

import (
	"io"
	"net/http"
	"strconv"

	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/accept"
)

// Pages are the pages of a proxy. The zero Pages are none.
type Pages struct {
	// by has the templates for a status, for a class (4 and 5), and for all (0).
	by map[int]*[2]*Template
}

// All selects a page for every status, in [Pages.Add].
const All = 0

// Add sets the page for a status, a class (4 or 5), or All. It reports false if there is
// one already.
func (p *Pages) Add(status int, t *Template) bool {
	if p.by == nil {
		p.by = map[int]*[2]*Template{}
	}
	if p.by[status] == nil {
		p.by[status] = &[2]*Template{}
	}
	if p.by[status][t.kind] != nil {
		return false
	}
	p.by[status][t.kind] = t
	return true
}

// find returns the page for a status: its own, that of its class, or that for all. nil
// means none.
func (p *Pages) find(status int, kind Type) *Template {
	for _, key := range [...]int{status, status / 100, All} {
		if of := p.by[key]; of != nil && of[kind] != nil {
			return of[kind]
		}
	}
	return nil
}

// Handler returns a weirhttp.ErrorHandler that sends the pages, or nil without pages.
func (p *Pages) Handler() weirhttp.ErrorHandler {
	if len(p.by) == 0 {
		return nil
	}
	return p.serve
}

// mediaTypes are the types of pages, by their Type, for accept.Choose.
var mediaTypes = [...]string{JSON: "application/json", HTML: "text/html"}

// choose returns the page that a client with these Accept fields prefers, nil for the line
// of text. A client that accepts nothing receives that as well: the status counts more than
// the type.
func (p *Pages) choose(fields []string, status int) *Template {
	var pages []*Template
	var types []string
	for kind, media := range mediaTypes {
		if t := p.find(status, Type(kind)); t != nil {
			pages, types = append(pages, t), append(types, media)
		}
	}
	if i := accept.Choose(fields, append(types, "text/plain")...); i >= 0 && i < len(pages) {
		return pages[i]
	}
	return nil
}

// contentTypes are by Type.
var contentTypes = [...]string{"application/json", "text/html; charset=utf-8"}

func (p *Pages) serve(w http.ResponseWriter, r *http.Request, e weirhttp.ErrorResponse) {
	w.Header().Add("Vary", "Accept")
	page := p.choose(r.Header["Accept"], e.Status)
	if page == nil {
		e.Write(w, r)
		return
	}
	body := page.render(valuesOf(r, e))
	h := w.Header()
	h.Set("Content-Type", contentTypes[page.kind])
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // if the client has gone, the server notices
	}
}
