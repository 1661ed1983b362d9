package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the page with every setting, flag and variable, in Markdown.
func Reference() []byte {
	var b strings.Builder
	b.WriteString(referenceHead)
	table(&b, "## The file, at the top", "", root)
	for _, f := range root {
		if f.fields != nil {
			sectionTable(&b, f.name, f)
		}
	}
	b.WriteString(referenceFlags)
	flags := reflect.TypeFor[Flags]()
	fmt.Fprintf(&b, "| `--config FILE` | `%s` | | The file. |\n", envConfig)
	for i := range flags.NumField() {
		tag := flags.Field(i).Tag
		fmt.Fprintf(&b, "| `--%s %s` | `%s` | `%s` | %s |\n",
			tag.Get("name"), tag.Get("placeholder"), EnvName(tag.Get("name")), tag.Get("path"), cell(tag.Get("help")))
	}
	fmt.Fprintf(&b, referenceLimits, Size(MaxFileBytes), MaxValues, MaxFaults, Size(MaxCertBytes), Size(MaxPageBytes), Size(MaxSecretBytes), MinTokenBytes)
	return []byte(b.String())
}

// sectionTable writes the table of a section, and those of its subsections.
func sectionTable(b *strings.Builder, path string, f *field) {
	if f.isList() {
		path += "[]"
	}
	table(b, fmt.Sprintf("## `%s`", path), f.help, f.fields)
	for _, below := range f.fields {
		if below.fields != nil {
			sectionTable(b, path+"."+below.name, below)
		}
	}
}

func table(b *strings.Builder, title, help string, fields []*field) {
	fmt.Fprintf(b, "\n%s\n\n", title)
	if help != "" {
		fmt.Fprintf(b, "%s\n\n", help)
	}
	b.WriteString("| Setting | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.name, cell(f.label()), f.shownDefault(), cell(f.shownBounds()), cell(f.help))
	}
}

func (f *field) shownDefault() string {
	switch {
	case f.required:
		return "required"
	case f.hasDef:
		return "`" + strings.ReplaceAll(f.def, ",", ", ") + "`"
	}
	return ""
}

func (f *field) shownBounds() string {
	s := f.span()
	switch {
	case s == "" && !f.noNone:
		s = "or none"
	case f.least > 0 && s == "":
		s = fmt.Sprintf("at least %d", f.least)
	case f.least > 0:
		s += fmt.Sprintf("; at least %d", f.least)
	}
	return s
}

// cell escapes characters that would end a table cell or be read as markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`).Replace(text)
}

const referenceHead = `<!-- Written by go test ./app/proxy/config -run Docs -update. Change the struct tags instead. -->

# Settings of weir proxy

Every setting with its type, default, bounds and meaning. Flags win over variables, variables over the file. Unknown or invalid settings are errors with file, line and column, all reported at once; the exit code is 2.

An [example](weir.example.yaml) shows every section. For editors there is a [JSON schema](proxy.schema.json); a first line such as ` + "`# yaml-language-server: $schema=proxy.schema.json`" + ` makes many of them use it.

- A **duration** has a unit: ` + "`250ms`, `10s`, `1h30m`" + `. There are no days.
- A **size** is a number of bytes, or has a unit of 1024: ` + "`512KiB`, `64MiB`, `2GiB`" + `.
- **none** takes a limit away.
- **true** and **false** are the only booleans; ` + "`yes` and `on`" + ` are errors.
- **Files**: names in the file are relative to its folder, those in flags and variables to the working directory. Secrets are in files of their own: tokens, keys, and header values with ` + "`set_from_file`" + `.
- Fields at the top whose names begin with ` + "`x-`" + ` are ignored: a place for YAML anchors, which other sections merge with ` + "`<<`" + `.
`

const referenceFlags = `
## Flags and variables

A list in a variable is separated by commas. A variable that is empty is not set. A variable that begins with ` + "`WEIR_`" + ` and is unknown is an error, except those of ` + "`weir jobs`" + ` and those that Kubernetes sets for a service of that name.

| Flag | Variable | Setting | Meaning |
|---|---|---|---|
`

const referenceLimits = `
## Limits on the configuration itself

| Limit | Value |
|---|---|
| ` + "`MaxFileBytes`" + `: size of the file | %v |
| ` + "`MaxValues`" + `: values in it, aliases written out | %d |
| ` + "`MaxFaults`" + `: errors that are reported | %d |
| ` + "`MaxCertBytes`" + `: size of a file with certificates or a key | %v |
| ` + "`MaxPageBytes`" + `: size of a file of error_pages | %v |
| ` + "`MaxSecretBytes`" + `: size of a file with a token or a header's value | %v |
| ` + "`MinTokenBytes`" + `: length of a token | %d |
`
