// Package console is a web console for Guards, HTTP handlers and gateways: an
// [http.Handler] with all it needs built in, which loads nothing from elsewhere.
//
// Below the path that it is mounted at there are, each relative to it:
//
//	GET  ./                    the page
//	GET  ./assets/…            its files
//	GET  ./events              server-sent events: "hello" with a Hello, and then
//	                           "tick" with a Tick each second
//	GET  ./api/snapshot        a Snapshot
//	GET  ./api/units/NAME      a Detail
//	GET  ./api/hot?unit=NAME&n=20   Hot, of that unit
//	GET  ./api/fleet           a Fleet, if there is one
//	POST ./api/purge           {"unit": "…", "tags": ["…"]} or {"unit": "…", "all": true};
//	                           where Options.Purge is set, what that understands
//	POST ./api/explain         what Options.Explain understands
//	GET  ./api/jobs…           what Options.Jobs understands
//	GET  ./login               the page of the login
//	POST ./login, ./logout     the token, as form or JSON {"token": "…"}; see Access
//
// Guards makes a Source of Guards; the package's example mounts one.
package console
