package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/jobs/embedded/internal/keep"
	"github.com/weir-go/weir/jobs/embedded/internal/writable"
)

// Trees are the folders, within that of the server, that a start may change.
var Trees = []string{"jetstream", Folder, CutFolder}

// Kept says how a file in one of the Trees is copied before a start. The server replaces
// its files, or removes them, with two exceptions (filestore.go of 2.15.3): it appends to
// the last block of a stream, and cuts off its end; and it writes its index anew in place.
// Ledgers are only appended to. A server of another version may write more of the small
// files in place: they are copied, too.
func Kept(last map[string]int) func(path string) keep.How {
	return func(path string) keep.How {
		if tree, _, _ := strings.Cut(filepath.ToSlash(path), "/"); tree != Trees[0] {
			return keep.Grow
		}
		n, isBlock := blockNumber(filepath.Base(path))
		if isBlock && n < last[filepath.Dir(path)] {
			return keep.Link
		}
		return keep.Copy
	}
}

// LastBlocks returns the number of the last block in each folder of blocks, by its path in
// dir.
func LastBlocks(dir string) (map[string]int, error) {
	last := map[string]int{}
	accounts, err := folders(filepath.Join(dir, Trees[0]))
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		streams, err := folders(filepath.Join(account, "streams"))
		if err != nil {
			return nil, err
		}
		for _, stream := range streams {
			all, err := blockIndexes(stream)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			if len(all) > 0 {
				last[inDir(dir, filepath.Join(stream, "msgs"))] = all[len(all)-1]
			}
		}
	}
	return last, nil
}

// folders returns the paths of the folders in dir, which may be missing.
func folders(dir string) (all []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}

// blockNumber returns the number in the name of a block file. Other spellings of a number
// are no names of blocks: the server would take 01.blk for 1.blk.
func blockNumber(name string) (int, bool) {
	text, ok := strings.CutSuffix(name, ".blk")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == text
}

// Foreign returns an error that names an entry in the folders of jobs' streams that
// neither the server nor this package has made. A server takes some names for an order:
// with 2.15.2, a folder __new_msgs__ replaces the blocks, and a file meta.key says that
// they are encrypted.
func Foreign(dir string) error {
	streams := streamsFolder(dir)
	if err := only(filepath.Dir(filepath.Dir(streams)), true, "$G", "$SYS"); err != nil {
		return err
	}
	if err := only(filepath.Dir(streams), true, "streams"); err != nil {
		return err
	}
	entries, err := os.ReadDir(streams)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		stream := filepath.Join(streams, e.Name())
		if !e.IsDir() {
			return foreign(stream)
		}
		if !strings.HasPrefix(e.Name(), StreamPrefix) {
			continue // other programs' streams have more than those of jobs
		}
		if err := foreignIn(stream); err != nil {
			return err
		}
	}
	return nil
}

// foreignIn is Foreign for one stream.
func foreignIn(stream string) error {
	if err := only(stream, true, "msgs", "obs"); err != nil {
		return err
	}
	blocks, err := os.ReadDir(filepath.Join(stream, "msgs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range blocks {
		_, isBlock := blockNumber(whole(e.Name()))
		if !e.Type().IsRegular() || !isBlock && !slices.Contains(indexes[:], whole(e.Name())) && !leftover(e.Name()) {
			return foreign(filepath.Join(stream, "msgs", e.Name()))
		}
	}
	queues, err := os.ReadDir(filepath.Join(stream, "obs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range queues {
		queue := filepath.Join(stream, "obs", e.Name())
		if !exists(filepath.Join(queue, metaFiles[0])) {
			continue // it is no consumer, and heal moves it away
		}
		if err := only(queue, false); err != nil {
			return err
		}
	}
	return nil
}

// only returns an error unless a folder has only folders with these names, and files that
// describe a stream or a consumer.
func only(dir string, stream bool, folders ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() && slices.Contains(folders, name):
		case e.IsDir() && len(folders) > 0 && name == "__snapshots__": // of a backup that a killed process has left
		case e.Type().IsRegular() && (slices.Contains(metaFiles[:], whole(name)) || leftover(name)):
		case e.Type().IsRegular() && !stream && whole(name) == "o.dat":
		default:
			return foreign(filepath.Join(dir, name))
		}
	}
	return nil
}

// whole returns the name of the file that a killed process was about to replace.
func whole(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".tmp"), ".new")
}

// leftover reports whether a killed process may have left a file with this name, which is
// neither replaced nor read: a block that was to be made smaller, and files by which the
// server and this package test whether they can write.
func leftover(name string) bool {
	number, ok := strings.CutSuffix(name, ".new")
	_, err := strconv.Atoi(number)
	return ok && err == nil || strings.HasPrefix(name, "_test_") || writable.IsProbe(name)
}

// ErrForeign is the cause of Foreign's errors.
var ErrForeign = errors.New("is not a file of the jobs")

func foreign(path string) error {
	return fmt.Errorf("%s %w. Nothing has been changed. Move it out of the folder, then reload or restart the proxy", path, ErrForeign)
}
