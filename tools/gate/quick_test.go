package main

import (
	"slices"
	"testing"
)

func TestAChangeTouchesItsPackageAndWhatUsesIt(t *testing.T) {
	const w = modulePath
	packages := []goPackage{
		{ImportPath: w, Imports: []string{w + "/limit"}},
		{ImportPath: w + "/limit"},
		{ImportPath: w + "/batch", XTestImports: []string{w + "/limit"}},
		{ImportPath: w + "/weirhttp", Imports: []string{w}},
		{ImportPath: w + "/tests", TestImports: []string{w + "/weirhttp"}},
		{ImportPath: w + "/apart", Imports: []string{w + "/batch"}},
		{ImportPath: w + "/internal/contract/loads", XTestImports: []string{w}},
	}
	for _, tt := range []struct {
		files           []string
		packages, users []string
	}{
		{[]string{"limit/a.go"}, []string{"./limit"}, []string{".", "./batch", "./weirhttp", "./tests", "./internal/contract/loads"}},
		{[]string{"limit/testdata/x/y.txt"}, []string{"./limit"}, []string{".", "./batch", "./weirhttp", "./tests", "./internal/contract/loads"}},
		{[]string{"get.go"}, []string{".", "./internal/contract/loads"}, []string{"./weirhttp", "./tests"}},
		{[]string{"README.md", "docs/howto/start.md"}, nil, nil},
		{[]string{"batch/b_test.go", "apart/c.go"}, []string{"./batch", "./apart"}, nil},
	} {
		got := touch(tt.files, packages)
		if !slices.Equal(got.packages, tt.packages) || !slices.Equal(got.users, tt.users) {
			t.Errorf("touch(%v) = %v, used by %v; want %v, used by %v", tt.files, got.packages, got.users, tt.packages, tt.users)
		}
	}
}
