package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// javaPackage is the Java that runs Cassandra: 5.0 supports 11 and 17, and the flags
// here are those of 17.
const (
	javaPackage = "openjdk-17-jre-headless"
	javaMajor   = "17"
)

// findJava returns a Java 17: from JAVA_HOME, the search path, /usr/lib/jvm, or the
// one that Install unpacked. It skips other versions.
func findJava() (string, error) {
	var found []string
	if dir := os.Getenv("JAVA_HOME"); filepath.IsAbs(dir) {
		found = append(found, filepath.Join(dir, "bin", "java"))
	}
	if path, err := exec.LookPath("java"); err == nil && filepath.IsAbs(path) {
		found = append(found, path)
	}
	installed, _ := filepath.Glob("/usr/lib/jvm/*" + javaMajor + "*/bin/java")
	found = append(found, installed...)
	found = append(found, filepath.Join(launchers(unpackedFolder("cassandra")), "java"))
	for _, path := range found {
		if executable(path) && isJava17(path) {
			return path, nil
		}
	}
	return "", missing("cassandra")
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// isJava17 runs the program, because the location of a Java does not prove its
// version.
func isJava17(path string) bool {
	cmd := exec.Command(path, "-XX:-UsePerfData", "-version")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	m := javaVersion.FindSubmatch(out)
	return err == nil && m != nil && string(m[1]) == javaMajor
}
