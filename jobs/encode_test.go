package jobs

import (
	"reflect"
	"testing"
	"time"
)

// Every field of an item and of a record is encoded as by encoding/json, alone and with
// all others, or is left to it.
func TestRecordsAreEncodedAsByEncodingJSON(t *testing.T) {
	check := func(v any, what string) {
		t.Helper()
		if got := encodePlain(v); got != nil && string(got) != string(encode(v)) {
			t.Errorf("%s: %s; want %s", what, got, encode(v))
		}
	}
	zero := record{State: StateDone}
	all := zero
	var fill func(v reflect.Value, what string)
	fill = func(v reflect.Value, what string) {
		for i := range v.NumField() {
			name, field := what+v.Type().Field(i).Name, v.Field(i)
			if field.Kind() == reflect.Struct && field.Type() == reflect.TypeFor[item]() {
				fill(field, "item.")
				continue
			}
			values := valuesOf(field.Interface())
			if len(values) == 0 {
				t.Errorf("no values for field %s of type %v", name, field.Type())
			}
			for _, value := range values {
				one := zero
				target := reflect.ValueOf(&one).Elem().FieldByName(v.Type().Field(i).Name)
				target.Set(reflect.ValueOf(value))
				check(one, name)
				check(one.item, name)
				field.Set(reflect.ValueOf(value))
				check(all, "all up to "+name)
				check(all.item, "all up to "+name)
			}
		}
	}
	fill(reflect.ValueOf(&all).Elem(), "")
	if encodePlain(zero) == nil {
		t.Error("a plain record is left to encoding/json")
	}
}

// valuesOf returns values of a field's type. The last one is plain, if there is one.
func valuesOf(field any) []any {
	switch field.(type) {
	case string:
		return []any{"<&>", "a\"b", `a\b`, "ä", "\x00", "\x7f", "\xff", "~ !"}
	case int:
		return []any{-1, 1 << 30, 7}
	case uint64:
		return []any{uint64(1 << 63), uint64(1<<64 - 1), uint64(7)}
	case time.Duration:
		return []any{-time.Second, time.Hour}
	case bool:
		return []any{true}
	case State:
		return []any{State(0), State(200), StateRetrying, StateRunning}
	case time.Time:
		return []any{time.Time{}, time.Unix(1, 0), time.Unix(1, 5).In(time.FixedZone("", 3600)), time.Unix(1e9, 120).UTC()}
	case headers:
		return []any{headers{"a": "b"}, headers{}, headers(nil)}
	case *Progress:
		return []any{&Progress{Note: "n"}, (*Progress)(nil)}
	case []FailedAttempt:
		return []any{[]FailedAttempt{{}}, []FailedAttempt{}, []FailedAttempt(nil)}
	case []LogLine:
		return []any{[]LogLine{{}}, []LogLine{}, []LogLine(nil)}
	}
	return nil
}
