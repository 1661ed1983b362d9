package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/app/proxy/config"
)

// The faults of each testdata/faults/NAME.yaml are next to it in NAME.txt. The files
// that these configurations name are one folder up.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("Glob = %d files, %v", len(files), err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			text, err := os.ReadFile(filepath.Join(here, file))
			if err != nil {
				t.Fatal(err)
			}
			write(t, name+".yaml", string(text))
			_, faults := loadFrom(t, config.Source{File: name + ".yaml"})
			if faults == nil {
				t.Fatalf("Load(%s) has no faults", name)
			}
			got := strings.ReplaceAll(faults.Text(), dir, "DIR")
			for _, secret := range []string{"sesame", "hunter2", "secret1"} {
				if strings.Contains(got, secret) {
					t.Errorf("the faults of %s contain a secret:\n%s", name, got)
				}
			}
			golden.Compare(t, filepath.Join(here, "testdata", "faults", name+".txt"), []byte(got))
		})
	}
}

func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("Glob = %d files, %v", len(files), err)
	}
	for _, file := range files {
		s := config.Source{File: file}
		if text, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if !strings.Contains(string(text), "upstreams") {
			s.Flags.Upstream = []string{"http://127.0.0.1:1"}
		}
		c := must(t, s)
		golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".txt", c.YAML())
	}
}
