package graphql_test

import (
	"testing"

	"github.com/weir-go/weir/internal/graphql"
)

func TestOnlyQueries(t *testing.T) {
	for document, want := range map[string]bool{
		`{ a }`: true, `query { a }`: true, "\ufeffquery Q($x: [Int!] = [1, {a: 2}] @d(x: {y: 1})) @e { a(b: \"}\") { c } }": true,
		`query mutation { a }`: true, `query Q { mutation }`: true, `fragment mutation on T { a } { ...mutation }`: true,
		`fragment F on subscription @mutation { a } query { ...F }`: true, "# mutation { a }\nquery { a }": true,
		`query { a(text: """ } mutation { "" \""" """) }`: true, `query A { a } query B { b }`: true, `{ a(x: "\"") }`: true,

		``: false, ` # { a }`: false, `mutation { a }`: false, `subscription { a }`: false, `query A { a } mutation B { b }`: false,
		`mutation B { b } query A { a }`: false, `query { a`: false, `{ a } }`: false, `query`: false, `type T { a: Int }`: false,
		"query { a }\rmutation { b }": false, "# x\rmutation { b }": false, `{ a(x: "y }`: false, `{ a(x: """y }`: false,
		`query A mutation B { b }`: false, `(a) { b }`: false, `extend type T { a: Int }`: false, `{a},mutation{b}`: false,
		`{ a(x: """\""") } mutation { b } """`: false,
	} {
		if got := graphql.OnlyQueries(document); got != want {
			t.Errorf("OnlyQueries(%q) = %v; want %v", document, got, want)
		}
	}
}

// Whatever a document is, it does not become a query because a mutation is added.
func FuzzOnlyQueries(f *testing.F) {
	f.Add(`query Q { a }`)
	f.Add(`{ a(x: """ y """) }`)
	f.Fuzz(func(t *testing.T, document string) {
		if graphql.OnlyQueries(document) && graphql.OnlyQueries(document+"\nmutation { a }") {
			t.Errorf("a mutation after %q is not noticed", document)
		}
	})
}
