package config

import (
	"fmt"

	"github.com/weir-go/weir/app/proxy/errorpage"
)

// ErrorPage is a body of responses that the proxy generates itself.
type ErrorPage struct {
	Statuses []int    `yaml:"statuses,omitempty" min:"400" max:"599" help:"Statuses that the page is for."`
	Classes  []string `yaml:"classes,omitempty" enum:"4xx,5xx" help:"Classes of statuses that it is for, unless another page names the status. Without statuses and classes it is for all others."`
	HTML     string   `yaml:"html,omitempty" form:"file" help:"File with the page for clients that prefer text/html. UTF-8. Placeholders: {{status}}, {{reason}}, {{message}}, {{retry_after}} (seconds, 0 for none) and {{request_id}} (the client's X-Request-Id or a new one, empty if it has unusual characters), all escaped. {{#retry_after}}...{{/retry_after}} is shown only if there is a time, and so for the others."`
	JSON     string   `yaml:"json,omitempty" form:"file" help:"File with the page for clients that prefer application/json, or that accept every type. It may have the same placeholders, those of texts in quotes."`
}

// keys returns what the page is for, as errorpage.Pages has it.
func (e ErrorPage) keys() []int {
	var keys []int
	keys = append(keys, e.Statuses...)
	for _, class := range e.Classes {
		keys = append(keys, int(class[0]-'0'))
	}
	if len(keys) == 0 {
		keys = []int{errorpage.All}
	}
	return keys
}

// files returns the files of the page with their settings.
func (e ErrorPage) files() []pageFile {
	var all []pageFile
	if e.JSON != "" {
		all = append(all, pageFile{"json", e.JSON, errorpage.JSON})
	}
	if e.HTML != "" {
		all = append(all, pageFile{"html", e.HTML, errorpage.HTML})
	}
	return all
}

type pageFile struct {
	setting, name string
	kind          errorpage.Type
}

func (f pageFile) read() (*errorpage.Template, error) {
	text, err := readFile(f.name, MaxPageBytes)
	if err != nil {
		return nil, err
	}
	t, err := errorpage.Parse(f.kind, text)
	if err != nil {
		return nil, &mistake{problem: err.Error()}
	}
	return t, nil
}

// errorPages reads the pages. complain gets each fault, with the page and the setting.
func (c *Config) errorPages(complain func(page int, setting, value string, err error)) *errorpage.Pages {
	pages := &errorpage.Pages{}
	for i, e := range c.ErrorPages {
		files := e.files()
		if len(files) == 0 {
			complain(i, "", "", &mistake{problem: "needs html, json, or both"})
		}
		for _, f := range files {
			t, err := f.read()
			if err != nil {
				complain(i, f.setting, f.name, err)
				continue
			}
			for _, key := range e.keys() {
				if !pages.Add(key, t) {
					complain(i, f.setting, "", &mistake{problem: "is a second page for " + statusName(key)})
				}
			}
		}
	}
	return pages
}

// statusName describes a key of a page.
func statusName(key int) string {
	switch {
	case key == errorpage.All:
		return "all statuses"
	case key < 10:
		return fmt.Sprintf("%dxx", key)
	}
	return fmt.Sprint(key)
}

func (d *decoder) checkErrorPages(c *Config) {
	bad := d.faulty("error_pages") // then a setting may be empty because of its fault
	c.errorPages(func(page int, setting, value string, err error) {
		if value == "" && bad {
			return
		}
		path := fmt.Sprintf("error_pages[%d]", page)
		if setting != "" {
			path = join(path, setting)
		}
		d.complain(d.place(path), value, err)
	})
}
