package listen

import (
	"net/http"
	"sync/atomic"
	"time"
)

// A dateText is the value of the Date field during one second.
type dateText struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dateText]

// date returns the current value of the Date field.
func date() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
