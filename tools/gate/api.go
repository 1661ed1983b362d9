package main

import "context"

// api compares the exported API of the released modules with the files in api/.
func api(ctx context.Context) (string, error) {
	_, err := command{}.run(ctx, "go", "run", "./tools/api")
	return "", err
}
