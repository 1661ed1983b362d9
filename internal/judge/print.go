package judge

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// String returns h as Go, to be read, and to be pasted into a test.
func (h History) String() string {
	var b strings.Builder
	write(&b, reflect.ValueOf(h), 0)
	return b.String()
}

// write leaves out zero fields. Short values stand on one line.
func write(b *strings.Builder, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		b.WriteString(v.Type().String() + "{")
		first := true
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				continue
			}
			if depth == 0 {
				b.WriteString("\n\t")
			} else if !first {
				b.WriteString(", ")
			}
			first = false
			b.WriteString(v.Type().Field(i).Name + ": ")
			write(b, v.Field(i), depth+1)
			if depth == 0 {
				b.WriteString(",")
			}
		}
		if depth == 0 {
			b.WriteString("\n")
		}
		b.WriteString("}")
	case reflect.Slice:
		steps := v.Type().Elem() == reflect.TypeFor[Step]() || v.Type().Elem() == reflect.TypeFor[Request]()
		b.WriteString(v.Type().String() + "{")
		for i := range v.Len() {
			if steps {
				b.WriteString("\n" + strings.Repeat("\t", depth+1))
			} else if i > 0 {
				b.WriteString(", ")
			}
			write(b, v.Index(i), depth+1)
			if steps {
				b.WriteString(",")
			}
		}
		if steps {
			b.WriteString("\n" + strings.Repeat("\t", depth))
		}
		b.WriteString("}")
	case reflect.Uint64:
		fmt.Fprint(b, v.Uint())
	default:
		if d, ok := v.Interface().(time.Duration); ok {
			fmt.Fprintf(b, "%d * time.Millisecond", d.Milliseconds())
			return
		}
		fmt.Fprintf(b, "%#v", v.Interface())
	}
}
