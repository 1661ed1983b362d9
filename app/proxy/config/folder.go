package config

import "fmt"

// checkFolder checks the folder of the cache.
func (d *decoder) checkFolder(c *Config) {
	if m := c.Cache; m.Dir != "" && m.DirSize > 0 && m.DirSize < m.Memory {
		d.warn(c, "cache.dir_size", m.DirSize.String(), fmt.Sprintf("is less than cache.memory, which is %v: a restart begins with a part of it", m.Memory))
	}
}
