// Package console is a web console for Guards, HTTP handlers and gateways: an
// [http.Handler] with all its files embedded, which loads nothing from other hosts.
//
// It serves these paths, relative to the one where it is mounted:
//
//	GET  ./                    the page
//	GET  ./assets/…            its files
//	GET  ./events              server-sent events: "hello" with a Hello, and then
//	                           "tick" with a Tick each second
//	GET  ./api/snapshot        a Snapshot
//	GET  ./api/units/NAME      a Detail
//	GET  ./api/hot?unit=NAME&n=20   Hot, of that unit; without one, of all units
//	GET  ./api/fleet           a Fleet, if there is one
//	POST ./api/purge           {"unit": "…", "tags": ["…"]} or {"unit": "…", "all": true};
//	                           with Options.Purge, its own format
//	POST ./api/explain         the format of Options.Explain
//	GET  ./api/jobs…           the format of Options.Jobs
//	GET  ./login               the login page
//	POST ./login, ./logout     the token, as form or JSON {"token": "…"}; see Access
//
// [Guards] returns a Source for Guards; the package's example mounts one.
package console
