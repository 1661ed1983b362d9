package keep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/jobs/bounded"
)

// Folder contains the copy, and Crashed the number of starts that ended while it existed.
const Folder = "weir.start"

const (
	listName    = "list"    // of the copy; the copy is complete
	crashedName = "crashed" // how many starts in a row ended without an error
	copyName    = "copy"    // the copy
	backName    = "back"    // another copy, to be moved into place
	goneName    = "gone"    // what was in its place
)

// A How says how a file is copied.
type How int

const (
	Link How = iota // the file is never written to, only replaced or removed
	Grow            // the file is only written to after its end
	Copy            // the file may be written to anywhere
)

// ErrNoLinks is returned by Take if the file system has no hard links. There is no copy.
var ErrNoLinks = errors.New("the file system has no hard links")

// A list describes a complete copy.
type list struct {
	Form  int              `json:"form"`
	Trees []string         `json:"trees"` // in the copy; the others did not exist
	None  []string         `json:"none,omitempty"`
	Sizes map[string]int64 `json:"sizes"` // of the linked files
	At    time.Time        `json:"at"`
}

const (
	listForm = 1
	maxList  = 1 << 30
)

// step is called before each change of the disk; tests replace it.
var step = func() {}

// Take copies the folders with these names, all in dir. They may be missing.
func Take(dir string, names []string, how func(path string) How) error {
	home := filepath.Join(dir, Folder)
	step()
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := clean(home); err != nil {
		return err
	}
	l := list{Form: listForm, Sizes: map[string]int64{}, At: time.Now()}
	for _, name := range names {
		from := filepath.Join(dir, name)
		info, err := os.Lstat(from)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			l.None = append(l.None, name)
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%w: %s is not a folder", ErrNoLinks, name)
		}
		c := copier{how: how, link: func(rel string, size int64) { l.Sizes[rel] = size }}
		if err := c.tree(from, filepath.Join(home, copyName, name), name); err != nil {
			_ = clean(home) // it is not a copy, and the next Take removes it
			return err
		}
		l.Trees = append(l.Trees, name)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := syncFolder(home); err != nil {
		return err
	}
	return replace(filepath.Join(home, listName), text)
}

// Drop removes the copy. Once it returns, the copy is never put back, even after a loss
// of power.
func Drop(dir string) error {
	home := filepath.Join(dir, Folder)
	step()
	if err := remove(filepath.Join(home, listName)); err != nil {
		return err
	}
	if err := syncFolder(home); err != nil {
		return err
	}
	if err := clean(home); err != nil {
		return err
	}
	step()
	if err := remove(filepath.Join(home, crashedName)); err != nil {
		return err
	}
	step()
	return remove(home)
}

// Left reports whether there is a copy, and how many starts in a row have ended while
// there was one: without an error, as in a crash.
func Left(dir string) (left bool, crashed int) {
	home := filepath.Join(dir, Folder)
	if text, err := bounded.File(filepath.Join(home, crashedName), 64); err == nil {
		_, _ = fmt.Sscan(string(text), &crashed) // 0 if it is damaged
	}
	_, err := os.Lstat(filepath.Join(home, listName))
	return !errors.Is(err, fs.ErrNotExist), crashed
}

// Back puts the copy back, if there is one, and then removes it. With crashed set, it
// counts a start that ended without an error. A Back that fails or is killed can be
// repeated.
func Back(dir string, crashed bool) error {
	home := filepath.Join(dir, Folder)
	l, err := readList(home)
	if err != nil {
		return err
	}
	for _, name := range []string{backName, goneName} {
		step()
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			return err
		}
	}
	step()
	if err := os.MkdirAll(filepath.Join(home, goneName), 0o700); err != nil {
		return err
	}
	for _, name := range l.Trees {
		c := copier{how: func(string) How { return Link }, link: func(string, int64) {}}
		if err := c.tree(filepath.Join(home, copyName, name), filepath.Join(home, backName, name), name); err != nil {
			return err
		}
	}
	for path, size := range l.Sizes {
		if err := cut(filepath.Join(home, backName, path), size); err != nil {
			return err
		}
	}
	for _, name := range append(l.Trees, l.None...) {
		if err := swap(dir, name); err != nil {
			return err
		}
	}
	if err := syncFolder(dir); err != nil {
		return err
	}
	if crashed {
		_, n := Left(dir)
		if err := replace(filepath.Join(home, crashedName), fmt.Append(nil, n+1)); err != nil {
			return err
		}
	}
	step()
	if err := remove(filepath.Join(home, listName)); err != nil {
		return err
	}
	if err := syncFolder(home); err != nil {
		return err
	}
	return clean(home)
}

// swap moves the restored folder into place. It may have been moved by a Back that was
// killed; then its successor has made it again.
func swap(dir, name string) error {
	home := filepath.Join(dir, Folder)
	step()
	if err := os.Rename(filepath.Join(dir, name), filepath.Join(home, goneName, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	step()
	err := os.Rename(filepath.Join(home, backName, name), filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there was no such folder
	}
	return err
}

// cut cuts off what was written after the end of a linked file.
func cut(path string, size int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Size() <= size {
		return nil // if it is shorter, its end is lost, and the next check reports that
	}
	step()
	return os.Truncate(path, size)
}

func readList(home string) (l list, err error) {
	text, err := bounded.File(filepath.Join(home, listName), maxList)
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l); err != nil || l.Form != listForm {
		return l, fmt.Errorf("%s cannot be read: format %d, %v", filepath.Join(Folder, listName), l.Form, err)
	}
	return l, nil
}

// clean removes what is left of copies.
func clean(home string) error {
	for _, name := range []string{backName, goneName, copyName, listName + newSuffix, crashedName + newSuffix} {
		step()
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			return err
		}
	}
	return nil
}

// A copier copies a folder.
type copier struct {
	how  func(path string) How
	link func(path string, size int64) // called for each linked file
}

// tree copies a folder, which the result names path.
func (c copier) tree(from, to, path string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	step()
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		one, rel := filepath.Join(from, e.Name()), filepath.Join(path, e.Name())
		switch {
		case e.IsDir():
			err = c.tree(one, filepath.Join(to, e.Name()), rel)
		case e.Type().IsRegular():
			err = c.file(one, filepath.Join(to, e.Name()), rel)
		default:
			err = fmt.Errorf("%s is neither a file nor a folder", rel)
		}
		if err != nil {
			return err
		}
	}
	if err := like(to, info); err != nil {
		return err
	}
	return syncFolder(to)
}

func (c copier) file(from, to, path string) error {
	how := c.how(path)
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	step()
	if how == Copy {
		return duplicate(from, to, info)
	}
	if err := os.Link(from, to); err != nil {
		if noLinks(err) {
			return fmt.Errorf("%w: %v", ErrNoLinks, err)
		}
		return err
	}
	c.link(path, info.Size())
	return nil
}

// duplicate copies a file, and flushes the copy.
func duplicate(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = like(to, info)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

const newSuffix = ".new"

// replace replaces a file completely, or leaves the old one unchanged.
func replace(path string, text []byte) error {
	step()
	f, err := os.OpenFile(path+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+newSuffix))
	}
	step()
	if err := os.Rename(path+newSuffix, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncFolder flushes the names in a folder to the disk.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
