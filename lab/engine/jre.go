package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// javaPackage is the Java that Cassandra is started with: 5.0 runs on 11 and
// 17, and the flags here are those of 17.
const (
	javaPackage = "openjdk-17-jre-headless"
	javaMajor   = "17"
)

// findJava returns a Java 17: that of JAVA_HOME, of the search path, of
// /usr/lib/jvm, or what Install unpacked. Others are passed over.
func findJava() (program, error) {
	var found []program
	if dir := os.Getenv("JAVA_HOME"); filepath.IsAbs(dir) {
		found = append(found, program{path: filepath.Join(dir, "bin", "java")})
	}
	if path, err := exec.LookPath("java"); err == nil && filepath.IsAbs(path) {
		found = append(found, program{path: path})
	}
	for _, root := range []string{"", unpackedFolder("cassandra")} {
		paths, _ := filepath.Glob(filepath.Join("/", root, "usr/lib/jvm/*"+javaMajor+"*/bin/java"))
		for _, path := range paths {
			found = append(found, program{path: path, root: root})
		}
	}
	for _, p := range found {
		if executable(p.path) && p.isJava17() {
			return p, nil
		}
	}
	return program{}, missing("cassandra")
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// isJava17 asks the program: where a Java is says little about what it is.
func (p program) isJava17() bool {
	cmd := exec.Command(p.path, "-XX:-UsePerfData", "-version")
	cmd.Env = p.environ(nil)
	out, err := cmd.CombinedOutput()
	m := javaVersion.FindSubmatch(out)
	return err == nil && m != nil && string(m[1]) == javaMajor
}
