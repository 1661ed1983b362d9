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

// isJava17 asks the program: where a Java is says little about what it is.
func isJava17(path string) bool {
	cmd := exec.Command(path, "-XX:-UsePerfData", "-version")
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	m := javaVersion.FindSubmatch(out)
	return err == nil && m != nil && string(m[1]) == javaMajor
}
