package licence

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module returns a folder with these files.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const isc = `Copyright (c) 2026 A. Person

Permission to use, copy, modify, and/or distribute this software for any purpose with or
without fee is hereby granted, provided that the above copyright notice and this permission
notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS
SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL
THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY
DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF
CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE
OR PERFORMANCE OF THIS SOFTWARE.
`

const unlicense = `This is free and unencumbered software released into the public domain.

Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software,
either in source code form or as a compiled binary, for any purpose, commercial or
non-commercial, and by any means.

In jurisdictions that recognize copyright laws, the author or authors of this software
dedicate any and all copyright interest in the software to the public domain. We make this
dedication for the benefit of the public at large and to the detriment of our heirs and
successors. We intend this dedication to be an overt act of relinquishment in perpetuity of
all present and future rights to this software under copyright law.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING
BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

For more information, please refer to <http://unlicense.org/>
`

func TestOf(t *testing.T) {
	ours, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
		err   string
	}{
		{"ours", map[string]string{"LICENSE": string(ours)}, []string{"Apache-2.0"}, ""},
		{"two files", map[string]string{"LICENSE": string(ours), "LICENSE.isc": isc, "NOTICE": "Thanks."}, []string{"Apache-2.0", "ISC"}, ""},
		{"two in one file", map[string]string{"COPYING": string(ours) + "\n\n" + isc}, []string{"Apache-2.0", "ISC"}, ""},
		{"none", map[string]string{"README": "Free for all.", "NOTICE": "Thanks."}, nil, "no licence"},
		{"unknown", map[string]string{"LICENSE": "You may use this program on Sundays, if you keep that secret."}, nil, "known licence"},
		{"mostly something else", map[string]string{"LICENSE": isc + strings.Repeat("You must also pay. ", 100)}, nil, "known licence"},
		{"not allowed", map[string]string{"LICENSE": unlicense}, nil, "Unlicense is not on the list"},
		{"one of two not allowed", map[string]string{"LICENSE": string(ours), "COPYING": unlicense}, nil, "Unlicense is not on the list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have, err := Of(module(t, tt.files))
			if !slices.Equal(have, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Of = %v, %v; want %v, an error with %q", have, err, tt.want, tt.err)
			}
		})
	}
}
