package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// J1: the removal of a finished job's item may be lost with its block, after the outcome
// has expired. The ledger still lists the outcome.
func TestJ1AFinishedJobIsRemovedAgain(t *testing.T) {
	const stream = StreamPrefix + "default"
	dir := t.TempDir()
	s := filepath.Join(streamsFolder(dir), stream)
	if err := os.MkdirAll(filepath.Join(s, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	meta := []byte("{}")
	for name, text := range map[string]string{metaFiles[0]: string(meta), metaFiles[1]: metaSum(meta, stream)} {
		if err := os.WriteFile(filepath.Join(s, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := goldenTime
	item := func(id byte, seq uint64) record {
		return record{
			seq: seq, time: then.UnixNano(), subject: subjectPrefix + fmt.Sprintf("default.q.%032x.w", id),
			header: []byte("NATS/1.0\r\n" + metaHeader + `: {"v":1}` + "\r\n\r\n"),
		}
	}
	var text []byte
	var all []message
	for _, r := range []record{item(1, 1), item(2, 2)} {
		text = encode(text, r, sums(stream, 1))
		m, _ := r.message()
		all = append(all, m)
	}
	if err := os.WriteFile(blockPath(s, 1), text, 0o600); err != nil {
		t.Fatal(err)
	}
	all = append(all, message{key: key{"q", all[0].id, true}, kind: terminal, seq: 3, time: then, expires: then.Add(time.Minute)})
	l, err := OpenLedger(dir, stream)
	if err == nil {
		err = l.note(all, 2, then)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Sound(dir, then.Add(time.Hour))
	if err == nil {
		_, err = Prepare(r, then.Add(time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := readStream(dir, stream)
	if err != nil || len(got.items) != 1 || got.items[2].seq != 2 {
		t.Errorf("after Prepare the items are %v, %v; want only the second", got.items, err)
	}
}

// A large ledger with a wrong bit is read in seconds: what could be a frame is bounded.
func TestJ1FramesOfALedgerAreBounded(t *testing.T) {
	c := newContents()
	for i := range 5 * perFrame {
		m := message{key: key{queue: "q", state: true}, kind: terminal, seq: uint64(i + 1), time: goldenTime}
		m.id[0], m.id[1] = byte(i), byte(i>>8)
		c.put(m)
	}
	c.last = 5 * perFrame
	l := &Ledger{path: filepath.Join(t.TempDir(), "s")}
	if err := l.rewrite(c); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for off := ledgerHead; off < len(b); frames++ {
		size, ok := frameAt(b, off)
		if !ok || size > maxFrame {
			t.Fatalf("frame %d has %d bytes, %t; want at most %d", frames, size, ok, maxFrame)
		}
		off += size
	}
	if frames < 5 {
		t.Errorf("%d frames; want 5 or more", frames)
	}
	b[ledgerHead+20] ^= 1
	got, err := decodeLedger("s", b)
	if err != nil || !got.damaged || len(got.messages) != 4*perFrame {
		t.Errorf("with a wrong bit, %d messages are read, damaged %t, %v; want those of all other frames", len(got.messages), got.damaged, err)
	}
}
