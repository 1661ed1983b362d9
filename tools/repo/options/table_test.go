package options_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/tools/repo/options"
	"github.com/weir-go/weir/weirhttp"
)

// The table says of -1 what the packages do with it.
func TestRepoOptionTableIsRight(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(here + "/../../../" + options.Page) // unclean, see root in tools/repo
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // negative, by name
	for _, row := range options.Rows(page) {
		rows[row.Option] = row.Negative
	}
	if len(rows) < 100 {
		t.Fatalf("%s has %d rows; is this test looking?", options.Page, len(rows))
	}
	var guard weir.Options
	var handler weirhttp.Options
	var fixed limit.ConcurrencyOptions
	var adaptive limit.AdaptiveOptions
	var rate limit.RateOptions
	var batches batch.Options
	shared := fleet.Config{Tier: fleet.NewMemory(fleet.MemoryOptions{})}
	none := func(context.Context, []int) ([]int, error) { return nil, nil }
	for _, of := range []struct {
		name  string
		o     any
		check func() error
	}{
		{"weir.Options", &guard, func() error { return guard.Validate() }},
		{"weir.Batching", &guard.Batch, func() error { return guard.Validate() }},
		{"weirhttp.Options", &handler, func() error { return handler.Validate() }},
		{"weirhttp.Policy", &handler.Policy, func() error { return handler.Validate() }},
		{"weirhttp.ClientLimits", &handler.Clients, func() error { return handler.Validate() }},
		{"limit.ConcurrencyOptions", &fixed, func() error { _, err := limit.NewConcurrency(fixed); return err }},
		{"limit.AdaptiveOptions", &adaptive, func() error { _, err := limit.NewAdaptive(adaptive); return err }},
		{"limit.RateOptions", &rate, func() error { _, err := limit.NewRateLimiter(rate); return err }},
		{"fleet.Config", &shared, func() error { return shared.Validate() }},
		{"batch.Options", &batches, func() error { _, err := batch.New(none, batches); return err }},
	} {
		o := reflect.ValueOf(of.o).Elem()
		for i := range o.NumField() {
			field, name := o.Field(i), o.Type().Field(i).Name
			negative := rows[of.name+"."+name]
			switch {
			case field.CanInt() && field.Kind() != reflect.Int8 && negative != "":
				field.SetInt(-1)
			case field.CanFloat():
				field.SetFloat(-1)
			default:
				continue
			}
			fault := strings.Contains(fmt.Sprint(of.check()), "."+name+" is -1")
			if fault != strings.HasPrefix(negative, "error") {
				t.Errorf("%s.%s = -1: %v; the table says %s", of.name, name, of.check(), negative)
			}
			field.SetZero()
		}
	}
}
