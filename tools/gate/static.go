package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
)

func gofmt(context.Context) (string, error) {
	var errs []error
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want, err := format.Source(have)
		if err == nil && !bytes.Equal(have, want) {
			err = fmt.Errorf("%s: not formatted with gofmt", path)
		}
		errs = append(errs, err)
		return nil
	})
	return "", errors.Join(append(errs, err)...)
}

func vet(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	return "", vetPackages(ctx, all)
}

func vetPackages(ctx context.Context, packages []string) error {
	_, err := command{lavish: true}.run(ctx, "go", append([]string{"vet"}, packages...)...)
	return err
}

func staticcheck(ctx context.Context) (string, error) {
	all, err := patterns()
	if err != nil {
		return "", err
	}
	return "", staticcheckPackages(ctx, all)
}

// staticcheckPackages builds the tool outside the workspace, so that its requirements do
// not raise those of other modules.
func staticcheckPackages(ctx context.Context, packages []string) error {
	tool, err := command{env: alone.env, quiet: true}.run(ctx, "go", "-C", "tools", "tool", "-n", "staticcheck")
	if err != nil {
		return err
	}
	_, err = command{lavish: true}.run(ctx, tool, packages...)
	return err
}
