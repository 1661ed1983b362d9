package main

import "context"

// licences checks the licences of everything that the released modules import.
func licences(ctx context.Context) (string, error) {
	_, err := command{}.run(ctx, "go", "run", "./tools/thirdparty")
	return "", err
}
