package main

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/jobs"
)

func TestJob(t *testing.T) {
	store, closeStore, err := open(t.Context(), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t.Context())
	reports, err := jobs.NewQueue[Order, Report](t.Context(), store, "reports", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := api{reports}.handler()
	do := func(method, target string, code int) *httptest.ResponseRecorder {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
		if w.Code != code {
			t.Fatalf("%s %s = %d %s; want %d", method, target, w.Code, w.Body, code)
		}
		return w
	}

	do("POST", "/reports?month=October", 400)
	url := do("POST", "/reports?month=2026-10", 202).Header().Get("Location")
	if again := do("POST", "/reports?month=2026-10", 202).Header().Get("Location"); again != url {
		t.Errorf("a second order for the month has URL %s; want %s", again, url)
	}
	do("GET", url, 202)
	do("GET", "/reports/unknown", 404)

	worker, err := reports.Work(makeReport, jobs.WorkerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close(t.Context())
	job := reports.Job(url[len("/reports/"):])
	progress := 0
	for status, err := range job.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if status.Progress != nil && !status.State.Terminal() {
			progress++
		}
	}
	if progress == 0 {
		t.Error("no progress was seen")
	}
	var got Report
	if err := json.Unmarshal(do("GET", url, 200).Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if want := (Report{"2026-10", 30}); got != want {
		t.Errorf("report = %+v; want %+v", got, want)
	}
}
