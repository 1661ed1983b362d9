// Package fromasynq sends mails from a queue, with asynq and with package jobs.
package fromasynq
