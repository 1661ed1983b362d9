package jobs

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

var updateGolden = flag.Bool("update", false, "write testdata/*.json; only for a format that no store has yet")

var goldenTime = time.Date(2026, 11, 23, 9, 0, 0, 500, time.UTC)

// goldenItem and goldenRecord have every field, each with a distinct value.
var (
	goldenItem = item{
		Form: 1, Key: "2026-10/ü", Owner: "digest", Label: "POST /reports/ü", Serial: "account 7", Fingerprint: "0123456789abcdef0123456789abcdef", Version: 2,
		Delay: time.Minute, Deadline: time.Hour, Keep: 24 * time.Hour, Lease: 30 * time.Second, LimitKey: "tenant ü",
		Headers: headers{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "state": `"state":"done" ü`},
	}
	goldenRecord = record{
		item: goldenItem, State: StateRetrying, Of: 1 << 40, Attempt: 5, Spent: 3, Snoozes: 4, Crashes: 2, Unsecured: true, Begun: true, Fence: 1<<40 + 1,
		Worker: "host/1/abc", Submitted: goldenTime, Started: goldenTime.Add(time.Second), RetryIn: 2 * time.Second,
		Progress: &Progress{Done: 3, Total: 4, Note: "half"}, Error: "the service answered 503",
		History: []FailedAttempt{{Attempt: 4, Ended: goldenTime.Add(time.Minute), Error: "lost", Class: "overload", Worker: "host/2/def"}},
		Log:     []LogLine{{At: goldenTime, Attempt: 4, Text: `"ü"`}, {At: goldenTime.Add(time.Second), Attempt: 5, Text: "page 2"}},
		Logged:  7, NoInput: true, Shown: 1<<40 + 2,
	}
	goldenClaim = `{"v":1,"key":"nightly@2026-11-23T09:00:00Z","lease":10000000000,"state":"forgotten","of":0,"submitted":"0001-01-01T00:00:00Z","claimed":true}`
)

// goldenFiles are the stored forms.
var goldenFiles = map[string]any{"v1-item": goldenItem, "v1-record": goldenRecord}

// P2: each version reads the claims that the previous ones have stored, and programs
// without claims read them as no job.
func TestP2_GoldenClaimsAreRead(t *testing.T) {
	want := claimRecord{record{item: item{Form: 1, Key: "nightly@2026-11-23T09:00:00Z", Lease: 10 * time.Second}, State: forgotten}, true}
	if got := string(meta(want)); got != goldenClaim {
		t.Errorf("a claim is encoded as\n%s; want\n%s", got, goldenClaim)
	}
	m := &journal.Message{Meta: []byte(goldenClaim), Seq: 7}
	if !isClaim(m) {
		t.Errorf("%s is no claim", goldenClaim)
	}
	if l, there, err := read(journal.View{State: m}); err != nil || !there || l.State != forgotten || l.Key != want.Key {
		t.Errorf("read = %+v, %t, %v; want a forgotten job", l, there, err)
	}
	dropped := record{item: item{Form: 1, Lease: time.Second}, State: forgotten}
	if isClaim(&journal.Message{Meta: meta(dropped)}) {
		t.Error("a dropped job is a claim")
	}
}

// J1: each version reads what the previous ones have stored. A file stays as long as
// a store can have jobs of its format; a changed format gets a new number and a new
// file.
func TestJ1GoldenRecordsAreRead(t *testing.T) {
	for name, want := range goldenFiles {
		everyField(t, name, reflect.ValueOf(want))
		file := "testdata/" + name + ".json"
		if *updateGolden {
			if err := os.WriteFile(file, append(meta(want), '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stored := strings.TrimSuffix(string(text), "\n")
		got := reflect.New(reflect.TypeOf(want))
		if err := decodeMeta(&journal.Message{Meta: []byte(stored)}, got.Interface()); err != nil || !reflect.DeepEqual(got.Elem().Interface(), want) {
			t.Errorf("%s decodes to %+v, %v; want %+v", file, got.Elem(), err, want)
		}
		if string(meta(want)) != stored {
			t.Errorf("%s: format %d is now encoded differently; give it a new number:\n%s\n%s", file, formVersion, meta(want), stored)
		}
	}
}

// everyField fails if a field of v is zero: the golden file would not show a change
// in how that field is decoded.
func everyField(t *testing.T, name string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() {
			t.Errorf("%s: %s is not in it", name, f.Name)
		}
		if f.Anonymous {
			everyField(t, name, v.Field(i))
		}
	}
}

// J1: a job of a later format, or of a number below the first, is refused with both
// numbers.
func TestJ1OtherFormsAreRefused(t *testing.T) {
	for _, form := range []int{formVersion - 1, formVersion + 1} {
		text, err := json.Marshal(item{Form: form})
		if err != nil {
			t.Fatal(err)
		}
		err = decodeMeta(&journal.Message{Queue: "q", ID: "abc", Meta: text}, new(record))
		if want := fmt.Sprintf("has format %d; this program reads %d", form, formVersion); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %d: %v; want an error with %q", form, err, want)
		}
	}
}

// J27: each version reads the gates that the previous ones have stored, and refuses
// those of a later one.
func TestJ27_GoldenGatesAreRead(t *testing.T) {
	const golden = `{"v":1,"holders":[{"job":"0123456789abcdef0123456789abcdef","attempt":2,"after":7,"at":"2026-11-23T09:00:00.0000005Z"}],"full":"2026-11-23T09:01:00.0000005Z","at":"2026-11-23T09:00:00.0000005Z"}`
	want := gate{
		Form: 1, Full: goldenTime.Add(time.Minute), At: goldenTime,
		Holders: []gateHolder{{Job: "0123456789abcdef0123456789abcdef", Attempt: 2, After: 7, At: goldenTime}},
	}
	if got := string(encode(want)); got != golden {
		t.Errorf("a gate is encoded as\n%s; want\n%s", got, golden)
	}
	if got, err := decodeGate([]byte(golden)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decodeGate = %+v, %v; want %+v", got, err, want)
	}
	if _, err := decodeGate([]byte(`{"v":2}`)); err == nil || !strings.Contains(err.Error(), "has format 2; this program reads 1") {
		t.Errorf("decodeGate of format 2 = %v; want both numbers", err)
	}
}
