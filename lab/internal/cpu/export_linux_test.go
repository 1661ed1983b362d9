package cpu

// Dir returns the share's folder.
func (s *Share) Dir() string { return s.dir }

// The parsers, for tables.
var (
	SplitCPUs = split
	ParseStat = func(line string) (parent int, used string, err error) {
		s, err := parseStat(line)
		return s.parent, s.used.String(), err
	}
	FindControllers = func(mounts, groups string) (dirs []string, v2 bool, err error) {
		all, err := findControllers(mounts, groups)
		for _, c := range all {
			dirs, v2 = append(dirs, c.dir), c.v2
		}
		return dirs, v2, err
	}
)
