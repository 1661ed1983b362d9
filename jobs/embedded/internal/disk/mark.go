package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// markForm is the version of marks. A later one may have another checksum if its number
// has two digits: one wrong bit makes another digit of a digit, but never two.
const markForm = 1

// A Mark is a file beside the folder of a server, FOLDER.mark, that describes what is
// in it. If the folder is empty or older than its mark, it was removed, is not
// mounted, or was restored from a copy.
type Mark struct {
	Form    int                   `json:"form"`
	Streams map[string]StreamMark `json:"streams"`
	At      time.Time             `json:"at"`
}

// A StreamMark is a lower bound of what a stream contained.
type StreamMark struct {
	Last uint64 `json:"last"` // sequence
	Jobs int    `json:"jobs"` // at the start of the server
}

// MarkPath returns the path of a folder's mark.
func MarkPath(dir string) string { return filepath.Clean(dir) + ".mark" }

// readMark returns the mark of a folder. It returns nil if there is none or it cannot
// be read, because the mark only supplements what the folder itself shows.
func readMark(dir string) (*Mark, error) {
	text, err := small(MarkPath(dir))
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	var m Mark
	if json.Unmarshal(text, &m) != nil {
		return nil, nil
	}
	whole := summed(text)
	if whole && m.Form > markForm || m.Form > 9 {
		return nil, fmt.Errorf("%s: %w: format %d; this program reads %d", MarkPath(dir), ErrNewer, m.Form, markForm)
	}
	if !whole {
		return nil, nil
	}
	return &m, nil
}

// Write replaces the mark of a folder.
func (m Mark) Write(dir string) error {
	m.Form = markForm
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(MarkPath(dir), withSum(text))
}

// withSum returns the text of a mark with its checksum as the last member.
func withSum(text []byte) []byte {
	body := bytes.TrimSuffix(text, []byte(markEnd))
	return fmt.Appendf(nil, "%s%s%08x\"%s\n", body, markSum, crc32.Checksum(body, castagnoli), markEnd)
}

const (
	markSum = ",\n  \"sum\": \""
	markEnd = "\n}"
)

// summed reports whether the checksum of a mark matches. If it does not, there is no
// mark: one wrong bit could name a stream that never was, or a newer version.
func summed(text []byte) bool {
	i := bytes.LastIndex(text, []byte(markSum))
	return i >= 0 && bytes.Equal(text, withSum(text[:i:i]))
}

// replaceFile replaces a file completely, or leaves the old one unchanged.
func replaceFile(path string, text []byte) error {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		if gone := os.Remove(temp); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	return SyncFolder(filepath.Dir(path))
}
