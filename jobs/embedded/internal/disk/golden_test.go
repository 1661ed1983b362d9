package disk

import (
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var updateGolden = flag.Bool("update", false, "write testdata; only for a format that is not on any disk yet")

var goldenTime = time.UnixMilli(1_795_000_000_123)

func goldenMessages() []message {
	m := func(queue string, id byte, k kind, seq uint64, lives time.Duration) message {
		out := message{key: key{queue: queue, id: [16]byte{0: id, 15: 0xff}, state: k != work}, kind: k, seq: seq, time: goldenTime.Add(time.Duration(seq) * time.Millisecond)}
		if lives > 0 {
			out.expires = out.time.Add(lives)
		}
		return out
	}
	return []message{
		m("reports", 1, work, 1, 0), m("mail", 2, work, 300, time.Hour), m("reports", 1, state, 301, time.Minute),
		m("reports", 3, terminal, 1<<40, 24*time.Hour),
	}
}

// J1: the next version can read a ledger written by this version.
func TestJ1GoldenLedgerIsRead(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLedger(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	all := goldenMessages()
	for _, some := range [][]message{all[:2], all[2:]} { // two frames; the second reuses a queue of the first
		if err := l.note(some, some[len(some)-1].seq+1, goldenTime.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(ledgerPath(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	stored := golden(t, "v1-ledger.hex", hex.EncodeToString(written))
	b, err := hex.DecodeString(stored)
	if err != nil {
		t.Fatal(err)
	}
	c, err := decodeLedger("golden", b)
	if err != nil || c.damaged || c.last != 1<<40+1 || !c.at.Equal(goldenTime.Add(time.Hour)) || c.size != int64(len(b)) {
		t.Fatalf("the ledger decodes to %+v, %v; want all messages", c, err)
	}
	for _, want := range all {
		if got := c.messages[want.key]; got.kind != want.kind || got.seq != want.seq || !got.time.Equal(want.time) || !got.expires.Equal(want.expires) {
			t.Errorf("%v decodes to %+v; want %+v", want.key, got, want)
		}
	}
	if len(c.messages) != len(all) {
		t.Errorf("%d messages; want %d", len(c.messages), len(all))
	}
	if b[len(ledgerMagic)] == ledgerVersion && hex.EncodeToString(written) != stored {
		t.Error("the encoding of this version has changed; give it a new number")
	}
	b[len(ledgerMagic)]++
	if _, err := decodeLedger("golden", b); !errors.Is(err, ErrNewer) {
		t.Errorf("reading a newer version = %v; want ErrNewer", err)
	}
}

// J1: the same holds for a mark.
func TestJ1GoldenMarkIsRead(t *testing.T) {
	want := Mark{
		Form: markForm, At: goldenTime.UTC(),
		Streams: map[string]StreamMark{"WEIR_JOBS_1_default": {Last: 1 << 40, Jobs: 3}, "WEIR_JOBS_1_a": {Last: 1}},
	}
	dir := filepath.Join(t.TempDir(), "jobs")
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(MarkPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	stored := golden(t, "v1-mark.json", strings.TrimSuffix(string(written), "\n"))
	if err := os.WriteFile(MarkPath(dir), []byte(stored+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readMark(dir); err != nil || got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("the mark decodes to %+v, %v; want %+v", got, err, want)
	}
	if string(written) != stored+"\n" {
		t.Errorf("the encoding has changed; give it a new number:\n%s\n%s", written, stored)
	}
	newer := strings.Replace(stored, `"form": 1`, `"form": 2`, 1)
	if err := os.WriteFile(MarkPath(dir), []byte(newer+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readMark(dir); err != nil || got != nil {
		t.Errorf("reading a mark with a wrong bit = %+v, %v; want none", got, err)
	}
	body := newer[:strings.LastIndex(newer, markSum)]
	if err := os.WriteFile(MarkPath(dir), withSum([]byte(body)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readMark(dir); !errors.Is(err, ErrNewer) {
		t.Errorf("reading a newer mark = %v; want ErrNewer", err)
	}
}

// golden returns the contents of a file without the newline at its end.
func golden(t *testing.T, name, now string) string {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(file, []byte(now+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}
