package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const (
	envPrefix = "WEIR_"
	envConfig = "WEIR_CONFIG"
)

// notOurs matches variables with our prefix that belong to other programs: to weir
// jobs, to the tests and tools of this repository, and to Kubernetes, which sets some
// in each container for every service of its namespace, for example for one named weir.
var notOurs = regexp.MustCompile(`^WEIR_(JOBS_(ADMIN|NATS|NAMESPACE|TOKEN_FILE|USER|PASSWORD_FILE|CREDS)|TEST_.*|LAB_.*|PROMISES_.*|MAVEN|(.*_)?SERVICE_(HOST|PORT(_.*)?)|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// servicePort matches the value of WEIR_PORT for such a service.
var servicePort = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// A setting is a setting from a flag or a variable.
type setting struct {
	path   string
	values []string
	origin string // --flag or WEIR_VARIABLE
}

// settings returns the settings from flags and variables, of which flags take precedence,
// and the faults of the variables' names.
func (s Source) settings() ([]setting, Faults) {
	var out []setting
	known := []string{envConfig}
	flags := reflect.ValueOf(s.Flags)
	for i := range flags.NumField() {
		tag := flags.Type().Field(i).Tag
		name := EnvName(tag.Get("name"))
		known = append(known, name)
		set := setting{path: tag.Get("path"), origin: "--" + tag.Get("name")}
		switch v := flags.Field(i).Interface().(type) {
		case []string:
			set.values = slices.Clone(v)
		case string:
			if v != "" {
				set.values = []string{v}
			}
		}
		if text := variable(s.Env, name); len(set.values) == 0 && text != "" {
			set.origin, set.values = name, []string{text}
			if flags.Field(i).Kind() == reflect.Slice {
				set.values = splitList(text)
			}
		}
		if len(set.values) > 0 {
			out = append(out, set)
		}
	}
	faults := unknownVariables(s.Env, known)
	for _, e := range s.Env {
		name, value, _ := strings.Cut(e, "=")
		if slices.Contains(known, name) && len(value) > MaxVariableBytes {
			faults = append(faults, &Fault{File: name, Problem: fmt.Sprintf("is larger than %v", Size(MaxVariableBytes))})
		}
	}
	return out, faults
}

// EnvName returns the variable of a flag: WEIR_DRAIN_DELAY for drain-delay.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// variable returns a variable's value; as in a shell, the last one counts.
func variable(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if n, value, _ := strings.Cut(e, "="); n == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func splitList(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func unknownVariables(env, known []string) Faults {
	var faults Faults
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || notOurs.MatchString(name) ||
			strings.HasSuffix(name, "_PORT") && servicePort.MatchString(value) {
			continue
		}
		f := &Fault{File: name, Problem: "unknown variable", Suggestion: nearest(name, known)}
		if f.Suggestion == "" {
			f.Problem += "; the variables are " + strings.Join(known, ", ")
		}
		faults = append(faults, f)
	}
	return faults
}
