// Package fromasynq sends mails from a queue, once with asynq and once with package jobs.
package fromasynq
