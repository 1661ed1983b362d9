package cpu_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/internal/cpu"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct{ all, generator, rest []int }{
		{[]int{0, 1}, []int{1}, []int{0}},
		{[]int{2, 5, 7}, []int{7}, []int{2, 5}},
		{[]int{0, 1, 2, 3}, []int{2, 3}, []int{0, 1}},
	} {
		generator, rest, err := cpu.SplitCPUs(tt.all)
		if err != nil || !reflect.DeepEqual(generator, tt.generator) || !reflect.DeepEqual(rest, tt.rest) {
			t.Errorf("split(%v) = %v, %v, %v; want %v, %v, nil", tt.all, generator, rest, err, tt.generator, tt.rest)
		}
	}
	if _, _, err := cpu.SplitCPUs([]int{3}); !errors.Is(err, cpu.ErrNotApplied) {
		t.Errorf("split of one processor = %v; want ErrNotApplied", err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 41 7 7 0 -1 4194560 1 2 3 4 150 25 300 1 20 0 1 0 99"
	for _, name := range []string{"(postgres)", "(a b) (c)", "(()"} {
		if parent, used, err := cpu.ParseStat("7 " + name + rest); err != nil || parent != 41 || used != "4.76s" {
			t.Errorf("parseStat of %s = %d, %s, %v; want 41, 4.76s, nil", name, parent, used, err)
		}
	}
	for _, bad := range []string{"", "7 (a) S 41", "7 (a" + rest, "7 (a)" + strings.Replace(rest, "150", "x", 1)} {
		if _, _, err := cpu.ParseStat(bad); err == nil {
			t.Errorf("parseStat(%q) = nil; want an error", bad)
		}
	}
}

func TestFindControllers(t *testing.T) {
	const (
		v1       = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		cpuset   = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
		unified  = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		v2       = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		inDocker = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro,relatime - cgroup cgroup rw,cpu\n"
	)
	tests := []struct {
		name, mounts, groups string
		want                 []string
		v2                   bool
	}{
		{"version 1", cpuset + v1 + unified, "4:cpuset:/x\n3:cpu,cpuacct:/user/me\n0::/y\n",
			[]string{"/sys/fs/cgroup/cpu,cpuacct/user/me", "/sys/fs/cgroup/cpu,cpuacct/user", "/sys/fs/cgroup/cpu,cpuacct"}, false},
		{"version 2", v2, "0::/user.slice/a.scope\n",
			[]string{"/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}, true},
		{"a container's part", inDocker, "3:cpu:/docker/abc/d\n", []string{"/sys/fs/cgroup/cpu/d", "/sys/fs/cgroup/cpu"}, false},
		{"a container's part, told otherwise", inDocker, "3:cpu:/\n", []string{"/sys/fs/cgroup/cpu"}, false},
		{"both, without cpu in version 1", cpuset + unified, "4:cpuset:/\n0::/\n", []string{"/sys/fs/cgroup/unified"}, true},
	}
	for _, tt := range tests {
		got, v2, err := cpu.FindControllers(tt.mounts, tt.groups)
		if err != nil || v2 != tt.v2 || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, version 2 %t, %v; want %v, %t, nil", tt.name, got, v2, err, tt.want, tt.v2)
		}
	}
	if got, _, err := cpu.FindControllers(cpuset, "4:cpuset:/\n"); !errors.Is(err, cpu.ErrNotApplied) {
		t.Errorf("without the controller: %v, %v; want ErrNotApplied", got, err)
	}
}
