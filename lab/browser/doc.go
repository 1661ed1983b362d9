// Package browser looks at pages as people do: in Chromium, without a window.
//
// A [Page] notes whatever the browser has to complain about, and every address
// that it asked for, so that a test can want neither a complaint nor a foreign
// address. Chromium is Debian's package of that name, had as
// package engine has all its tools.
package browser
