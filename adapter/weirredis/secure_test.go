package weirredis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/once"
)

const secret = "correct-horse-battery"

// A wrong password is an error of New, which does not show it.
func TestWrongPassword(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	s.Do("ACL", "SETUSER", "weir", "on", ">"+secret+"-other", "~*", "+@all")
	tests := []struct {
		name   string
		change func(*weirredis.Options)
		want   string
	}{
		{"wrong password", func(o *weirredis.Options) { o.Username, o.Password = "weir", secret }, "WRONGPASS"},
		{"no such user", func(o *weirredis.Options) { o.Username, o.Password = "nobody", secret }, "WRONGPASS"},
		{"from a function", func(o *weirredis.Options) {
			o.Credentials = func() (string, string, error) { return "weir", secret, nil }
		}, "WRONGPASS"},
	}
	for _, test := range tests {
		o := weirredis.Options{Addresses: []string{s.Addr}}
		test.change(&o)
		tier, err := weirredis.New(t.Context(), o)
		if err == nil {
			_ = tier.Close(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: New = %v; want an error with %q and no secret", test.name, err, test.want)
		}
	}
}

// leastRights returns the ACL rule of the documentation.
func leastRights(prefix string) []string {
	return strings.Fields("resetkeys resetchannels -@all ~" + prefix + ":* " +
		"+evalsha +eval +hget +hmget +hset +hdel +hrandfield +pexpire +pttl +set +del +time +ping " +
		"+hello +auth +client|setname +client|tracking +cluster|slots")
}

// The rights that the package comment has for claims are enough.
func TestH45_LeastRightsForClaims(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	more := strings.Fields("+get +exists +hincrby +hlen +zadd +zrem +zscore +zcard +zrange +zrangebyscore +wait +info")
	s.Do(append(append([]string{"ACL", "SETUSER", "weir", "reset", "on", ">" + secret}, leastRights("weir")...), more...)...)
	store := claims(t, open(t, s, func(o *weirredis.Options) { o.Username, o.Password = "weir", secret }))
	id := once.Sum("a")
	v, err := store.Put(t.Context(), id, claimOf(once.Unknown), 0)
	if err == nil {
		_, err = store.Get(t.Context(), id)
	}
	if all, lerr := store.List(t.Context(), 10, once.Claimed, once.Unknown); err != nil || lerr != nil || len(all) != 1 {
		t.Fatalf("Put and Get = %v; List = %v, %v", err, all, lerr)
	}
	if err := store.Delete(t.Context(), id, v); err != nil {
		t.Errorf("Delete = %v", err)
	}
	eventually(t, "a heartbeat", func() bool { return s.Calls()["hrandfield"] > 0 })
	if log := s.Do("ACL", "LOG"); log.Error() != nil {
		t.Errorf("ACL LOG = %v", log.Error())
	} else if refused, err := log.ToArray(); err != nil || len(refused) > 0 {
		t.Errorf("ACL LOG = %v, %v; want no refusals", refused, err)
	}
}

func TestLeastRights(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	s.Do(append([]string{"ACL", "SETUSER", "weir", "reset", "on", ">" + secret}, leastRights("weir")...)...)
	tier := open(t, s, func(o *weirredis.Options) { o.Username, o.Password = "weir", secret })
	everything(t, tier)
	log := s.Do("ACL", "LOG")
	if refused, err := log.ToArray(); err != nil || len(refused) > 0 {
		t.Errorf("ACL LOG = %v, %v; want no refusals", refused, err)
	}
	// This user has no access to another service's keys.
	other, err := weirredis.New(t.Context(), weirredis.Options{Addresses: []string{s.Addr}, Username: "weir", Password: secret, Prefix: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.Write(t.Context(), key("k"), fleet.Write{}); !unavailable(err) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("Write under another prefix = %v; want NOPERM", err)
	}
}

// everything uses each operation once.
func everything(t *testing.T, tier *weirredis.Tier) {
	t.Helper()
	told := watch(t, tier, "ns")
	fence := granted(t, tier, key("k"))
	if ok, err := tier.Extend(t.Context(), key("k"), fence, time.Minute); !ok || err != nil {
		t.Errorf("Extend = %v, %v; want true", ok, err)
	}
	settle(t, tier, key("k"), fence, fleet.Outcome{Entry: entry("v")}, true)
	told.await(t, fmt.Sprintf("changed %q %d false", "k", fence))
	fence = write(t, tier, key("k"), fleet.Write{})
	told.await(t, fmt.Sprintf("changed %q %d true", "k", fence))
	fence = granted(t, tier, key("k"))
	settle(t, tier, key("k"), fence, fleet.Outcome{Cool: time.Minute, Remove: true}, true)
	told.await(t, fmt.Sprintf("released %q", "k"))
	seq, err := tier.InvalidateTags(t.Context(), "ns", []string{"a"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	told.await(t, fmt.Sprintf("tagged %q %d", "a", seq))
	if s, err := tier.Tags(t.Context(), "ns", []string{"a", "b"}); err != nil || s.Last != seq || s.Each[0] != seq || s.Each[1] != 0 {
		t.Errorf("Tags = %+v, %v; want %d for a, nothing for b", s, err, seq)
	}
	if got, err := tier.Take(t.Context(), key("k"), fleet.Rate{Permits: 1, Per: time.Hour, Burst: 2}, 3); err != nil || got.Permits != 2 {
		t.Errorf("Take = %+v, %v; want 2", got, err)
	}
	if err := tier.Announce(t.Context(), fleet.Instance{ID: "a"}, time.Minute); err != nil {
		t.Errorf("Announce = %v; want nil", err)
	}
	if all, err := tier.Instances(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Errorf("Instances = %+v, %v; want a", all, err)
	}
	if err := tier.Withdraw(t.Context(), "a"); err != nil {
		t.Errorf("Withdraw = %v; want nil", err)
	}
}

// Credentials are fetched for each connection, so they can change.
func TestCredentialsRotate(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	s.Do("ACL", "SETUSER", "weir", "on", ">first", "~*", "+@all")
	var password atomic.Value
	password.Store("first")
	tier := open(t, s, func(o *weirredis.Options) {
		o.Credentials = func() (string, string, error) { return "weir", password.Load().(string), nil }
	})
	told := watch(t, tier, "ns")
	s.Do("ACL", "SETUSER", "weir", "resetpass", ">second")
	s.Do("CLIENT", "KILL", "USER", "weir")
	told.await(t, "lost")
	if _, err := tier.Write(t.Context(), key("k"), fleet.Write{}); !unavailable(err) || strings.Contains(err.Error(), "first") {
		t.Errorf("Write with the old password = %v; want unavailable, without the password", err)
	}
	password.Store("second")
	told.await(t, "reset")
	eventually(t, "commands to go through", func() bool {
		_, err := tier.Write(t.Context(), key("k"), fleet.Write{})
		return err == nil
	})
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	s := redistest.StartTLS(t, redistest.Redis(t), file("cert"), file("key"), file("cert"))
	tier := open(t, s, func(o *weirredis.Options) { o.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} })
	everything(t, tier)

	stranger := open(t, s, func(o *weirredis.Options) {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} // does not trust the authority
		o.Breaker.Failures = 1 << 20
	})
	_, err := stranger.Write(t.Context(), key("k"), fleet.Write{})
	if !unavailable(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Write to a server of an unknown authority = %v; want unavailable because of its certificate", err)
	}
}

// certificate writes a certificate for 127.0.0.1 that is its own authority, and
// its key, to the files cert and key.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weirredis test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}
