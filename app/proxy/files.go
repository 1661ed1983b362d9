package proxy

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs/bounded"
)

// seed makes it impossible to guess secret values from their hashes.
var seed = maphash.MakeSeed()

// hashOf returns a hash that differs between processes.
func hashOf(content []byte) string { return fmt.Sprintf("%x", maphash.Bytes(seed, content)) }

// fileHashes returns hashes of the files that c names, by setting. It leaves out folders,
// and files that cannot be read.
func fileHashes(c *config.Config) map[string]string {
	hashes := map[string]string{}
	for setting, name := range c.Files() {
		if content, err := bounded.File(name, config.MaxCertBytes); err == nil {
			hashes[setting] = hashOf(content)
		}
	}
	return hashes
}

// changedFiles returns the settings whose files have a new content.
func changedFiles(from, to map[string]string) []string {
	var all []string
	for _, setting := range slices.Sorted(maps.Keys(to)) {
		if was, named := from[setting]; named && was != to[setting] {
			all = append(all, setting)
		}
	}
	return all
}

// fixFiles adds the files to fixed whose content is read only at the start, such as the
// password of Redis. NATS credentials are not among them: they are read again for each
// connection.
func fixFiles(fixed map[string]string, c *config.Config, hashes map[string]string) {
	names := c.Files()
	for setting, hash := range hashes {
		section, _, _ := strings.Cut(setting, ".")
		switch section {
		case "fleet", "idempotency", "jobs", "telemetry":
			if setting != "jobs.credentials_file" {
				fixed[setting] = names[setting] + ", content " + hash
			}
		}
	}
}
