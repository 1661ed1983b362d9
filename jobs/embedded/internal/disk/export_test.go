package disk

import (
	"os"
	"path/filepath"
	"strings"
)

// Split rewrites the blocks of a stopped server's stream so that each has one record, and
// returns how many there are.
func Split(dir, stream string) (int, error) {
	s, err := readStream(dir, stream)
	if err != nil {
		return 0, err
	}
	var all []record
	for _, b := range s.blocks {
		text, err := readFile(b.path, maxBlock)
		if err != nil {
			return 0, err
		}
		scan(text, stream, b.index, func(r record) {
			r.subject = strings.Clone(r.subject)
			all = append(all, r)
		})
	}
	for _, b := range s.blocks {
		if err := remove(b.path); err != nil {
			return 0, err
		}
	}
	for i, r := range all {
		if err := os.WriteFile(blockPath(s.dir, i+1), encode(nil, r, sums(stream, i+1)), 0o600); err != nil {
			return 0, err
		}
	}
	return len(all), removeIndexes(filepath.Join(streamsFolder(dir), stream))
}
