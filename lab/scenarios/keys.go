package scenarios

import (
	"net/http"
	"strconv"
)

// keyPaths are the paths of n keys, for load.Spec.URLs.
func keyPaths(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = "/" + strconv.Itoa(i)
	}
	return paths
}

// keyOf returns the key of a request that goes to one of keyPaths.
func keyOf(r *http.Request) (int, error) { return strconv.Atoi(r.URL.Path[1:]) }
