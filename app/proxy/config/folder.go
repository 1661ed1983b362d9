package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// checkFolder checks the folder of the cache.
func (d *decoder) checkFolder(c *Config) {
	if m := c.Cache; m.Dir != "" && m.DirSize > 0 && m.DirSize < m.Memory {
		d.warn(c, "cache.dir_size", m.DirSize.String(), fmt.Sprintf("is less than cache.memory, which is %v: a restart begins with a part of it", m.Memory))
	}
}

// checkFolders checks that the folder of the cache and that of the jobs are apart: each
// part deletes what it does not know in its own folder.
func (d *decoder) checkFolders(c *Config) {
	if c.Cache.Dir == "" || c.Jobs == nil || c.Jobs.Dir == "" {
		return
	}
	cache, jobs := realPath(c.Cache.Dir), realPath(c.Jobs.Dir)
	switch {
	case cache == jobs:
		d.wrong("cache.dir", c.Cache.Dir, "is jobs.dir too; each needs its own folder", "")
	case within(cache, jobs):
		d.wrong("cache.dir", c.Cache.Dir, "is in jobs.dir; each needs its own folder", "")
	case within(jobs, cache):
		d.wrong("cache.dir", c.Cache.Dir, "contains jobs.dir; each needs its own folder", "")
	}
}

// within reports whether a folder is below another one.
func within(folder, other string) bool {
	rest, err := filepath.Rel(other, folder)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// realPath returns a path without symbolic links, as far as it exists.
func realPath(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(realPath(up), filepath.Base(path))
	}
	return path
}
