// Package fromriver sends mails from a queue, once with River and once with package jobs.
package fromriver
