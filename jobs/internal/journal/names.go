package journal

import "strings"

// A Kind is one of the kinds of a job's messages.
type Kind string

// The kinds, as the last token of the subjects.
const (
	Work  Kind = "w"
	State Kind = "s"
)

const version = "1"

// names builds the names of a namespace's stream, subjects and consumers on the
// server.
type names struct{ namespace string }

func (n names) stream() string { return "WEIR_JOBS_" + version + "_" + n.namespace }

func (n names) prefix() string { return "weir.jobs." + version + "." + n.namespace + "." }

// subject is the subject of a message. Queue and id may be "*".
func (n names) subject(queue, id string, k Kind) string {
	return n.prefix() + queue + "." + id + "." + string(k)
}

// both is a filter for all messages of a job.
func (n names) both(queue, id string) string { return n.prefix() + queue + "." + id + ".*" }

// changed is the subject on which the server announces that a state was written.
func (n names) changed(queue, id string) string {
	return "weir.jobs-changed." + version + "." + n.namespace + "." + queue + "." + id
}

// canceled is where cancellations of a queue's jobs are published.
func (n names) canceled(queue string) string {
	return "weir.jobs-canceled." + version + "." + n.namespace + "." + queue
}

// free is where it is announced that a queue's lock or gate may be free.
func (n names) free(queue string) string {
	return "weir.jobs-free." + version + "." + n.namespace + "." + queue
}

// parse splits a subject.
func (n names) parse(subject string) (queue, id string, k Kind, ok bool) {
	rest, ok := strings.CutPrefix(subject, n.prefix())
	if !ok {
		return "", "", "", false
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], Kind(parts[2]), true
}
