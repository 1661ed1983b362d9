package cpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A controller is a group of the hierarchy with the cpu controller.
type controller struct {
	dir string
	v2  bool
}

// controllers returns the candidate parents for groups: this process's group, then
// the groups that contain it. Version 2 does not allow groups with a limit next to
// processes, so our own group often cannot have any below it.
func controllers() ([]controller, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, notApplied("find the control groups: %w", err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, notApplied("find the control groups: %w", err)
	}
	all, err := findControllers(string(mounts), string(groups))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// findControllers reads the two files, see cgroups(7) and proc_pid_mountinfo(5). A
// machine with both versions has the controller in one of them; version 1 is checked
// first.
func findControllers(mounts, groups string) ([]controller, error) {
	for _, v2 := range []bool{false, true} {
		own, ok := ownGroup(groups, v2)
		if !ok {
			continue
		}
		root, point, ok := mount(mounts, v2)
		if !ok {
			continue
		}
		// The mount may show only a part of the hierarchy, such as a container's.
		below, err := filepath.Rel(root, own)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			below = "."
		}
		var all []controller
		for dir := filepath.Join(point, below); ; dir = filepath.Dir(dir) {
			all = append(all, controller{dir, v2})
			if dir == point || dir == "/" {
				return all, nil
			}
		}
	}
	return nil, notApplied("no control group hierarchy with the controller cpu is mounted")
}

// ownGroup finds this process's group in /proc/self/cgroup, whose lines are
// number:controllers:path; those of version 2 have no controllers.
func ownGroup(groups string, v2 bool) (path string, ok bool) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if v2 && parts[0] == "0" && parts[1] == "" || !v2 && slices.Contains(strings.Split(parts[1], ","), "cpu") {
			return parts[2], true
		}
	}
	return "", false
}

// mount finds the hierarchy in /proc/self/mountinfo: the mounted part of it, and the
// mount point.
func mount(mounts string, v2 bool) (root, point string, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(fs) < 3 {
			continue
		}
		if v2 && fs[0] == "cgroup2" || !v2 && fs[0] == "cgroup" && slices.Contains(strings.Split(fs[2], ","), "cpu") {
			return fields[3], fields[4], true
		}
	}
	return "", "", false
}

// enable lets groups below c have limits. In version 1 they always can.
func (c controller) enable() error {
	if !c.v2 {
		return nil
	}
	has, err := os.ReadFile(filepath.Join(c.dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(has)), "cpu") {
		return fmt.Errorf("%s has no controller cpu", c.dir)
	}
	on, err := os.ReadFile(filepath.Join(c.dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(on)), "cpu") {
		return nil
	}
	if err := write(c.dir, "cgroup.subtree_control", "+cpu"); err != nil {
		return errors.Join(fmt.Errorf("enable the controller cpu in %s", c.dir), err)
	}
	return nil
}
