// Package fromriver sends mails from a queue, with River and with package jobs.
package fromriver
