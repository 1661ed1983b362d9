package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// certify writes NAME.pem and NAME.key for names.
func certify(t *testing.T, dir, file string, serial int64, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, file+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	put(t, filepath.Join(dir, file+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk})))
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fetched sends a request, and returns the response and its body.
func fetched(t *testing.T, client *http.Client, method, url string, fields ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		}
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// H27: the program as an operator runs it: an upstream with its own Host and base path,
// two TLS listeners with several certificates, and error pages; all of it reloads.
func TestH27_InFrontOfAnything(t *testing.T) {
	dir := t.TempDir()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		if r.URL.Path == "/v1/moved" {
			w.Header().Set("Location", "/v1/target")
			w.WriteHeader(http.StatusFound)
		}
		fmt.Fprintf(w, "%s %s %s", r.Host, r.RequestURI, r.Header.Get("X-Forwarded-Host"))
	}))
	defer origin.Close()
	certify(t, dir, "main", 1, "main.example")
	certify(t, dir, "shop", 2, "shop.example", "*.shop.example")
	certify(t, dir, "inner", 3, "inner.example")
	put(t, filepath.Join(dir, "busy.html"), "<h1>{{status}}</h1>{{retry_after}} {{request_id}}")
	put(t, filepath.Join(dir, "error.json"), `{"status": {{status}}, "message": "{{message}}"}`)
	file, outer, inner := filepath.Join(dir, "weir.yaml"), free(t), free(t)
	text := fmt.Sprintf(`
listen:
  - address: %s
    tls: {cert: main.pem, key: main.key, more: [{cert: shop.pem, key: shop.key}]}
  - address: %s
    tls: {cert: inner.pem, key: inner.key}
error_pages:
  - {statuses: [429], html: busy.html}
  - {json: error.json}
upstreams:
  - {name: api, servers: [%q], host: api.internal, base_path: /v1}
  - {name: down, servers: ["http://127.0.0.1:1"]}
routes:
  - {name: all, upstream: api}
  - {name: api, path: /api, strip_prefix: /api, upstream: api}
  - {name: limited, path: /limited, upstream: api, rate: {requests: 1, per: 1h}}
  - {name: down, path: /down, upstream: down}
  - {name: only, path: /only, methods: [POST], upstream: api}
`, outer, inner, origin.URL)
	put(t, file, text)
	p := start(t, "--config", file)
	client := func(name string, two bool) *http.Client {
		var protocols http.Protocols
		protocols.SetHTTP1(!two)
		protocols.SetHTTP2(two)
		tr := &http.Transport{Protocols: &protocols, DisableKeepAlives: !two, TLSClientConfig: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	present := func(when, address, name string, want int64) {
		t.Helper()
		for _, two := range []bool{false, true} {
			resp, _ := fetched(t, client(name, two), "GET", "https://"+address+"/", "Host", name)
			if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); got != want {
				t.Errorf("%s: %s for %q presents %d; want %d", when, resp.Proto, name, got, want)
			}
		}
	}
	present("first", outer, "www.shop.example", 2)
	present("first", outer, "stranger.example", 1)
	present("first", inner, "www.shop.example", 3)

	url := "https://" + outer
	for _, two := range []bool{false, true} {
		c := client("shop.example", two)
		for path, want := range map[string]string{"/x?q=%zz": "/v1/x?q=%zz", "/api/x": "/v1/x", "/api": "/v1/"} {
			for range 2 { // the second is a hit, on the fast path over HTTP/1.1
				if resp, body := fetched(t, c, "GET", url+path, "Host", "shop.example"); resp.StatusCode != 200 || body != "api.internal "+want+" shop.example" {
					t.Errorf("GET %s = %d %q; want api.internal and %s", path, resp.StatusCode, body, want)
				}
			}
		}
		if resp, _ := fetched(t, c, "GET", url+"/moved", "Host", "shop.example"); resp.Header.Get("Location") != "/v1/target" {
			t.Errorf("Location = %q; want it as the origin sent it", resp.Header.Get("Location"))
		}
	}

	c := client("shop.example", false)
	fetched(t, c, "GET", url+"/limited", "Host", "shop.example") // the only one
	for _, e := range []struct {
		path, accept, id string
		status           int
		kind, body       string
	}{
		{"/limited", "text/html", "a-1", 429, "text/html; charset=utf-8", "<h1>429</h1>3600 a-1"},
		{"/limited", "text/html", "<b>", 429, "text/html; charset=utf-8", "<h1>429</h1>3600 "},
		{"/limited", "", "", 429, "application/json", `{"status": 429, "message": "too many requests from this client"}`},
		{"/limited", "text/plain", "", 429, "text/plain; charset=utf-8", "429 Too Many Requests: too many requests from this client; try again in 3600 s\n"},
		{"/down", "text/html, */*;q=0.1", "", 502, "application/json", `{"status": 502, "message": "the service cannot be reached"}`},
		{"/down", "text/html", "", 502, "text/plain; charset=utf-8", "502 Bad Gateway: the service cannot be reached\n"},
		{"/api/../x", "", "", 400, "application/json", `{"status": 400, "message": "this spelling of the path cannot be forwarded"}`},
	} {
		fields := []string{"Host", "shop.example"}
		if e.accept != "" {
			fields = append(fields, "Accept", e.accept)
		}
		if e.id != "" {
			fields = append(fields, "X-Request-Id", e.id)
		}
		resp, body := fetched(t, c, "GET", url+e.path, fields...)
		if resp.StatusCode != e.status || body != e.body || resp.Header.Get("Content-Type") != e.kind {
			t.Errorf("GET %s, Accept %q = %d %q %q; want %d %q %q", e.path, e.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body, e.status, e.kind, e.body)
		}
		if (e.status == 429) != (resp.Header.Get("Retry-After") != "") || (e.status == 502) != (resp.Header.Get("Proxy-Status") != "" && e.status != 429) {
			t.Errorf("GET %s: the fields are %v", e.path, resp.Header)
		}
		head, none := fetched(t, c, "HEAD", url+e.path, fields...)
		if none != "" || head.StatusCode != e.status || head.ContentLength != int64(len(e.body)) {
			t.Errorf("HEAD %s = %d, length %d, %q; want %d, %d and no body", e.path, head.StatusCode, head.ContentLength, none, e.status, len(e.body))
		}
	}

	// A bad reload keeps everything, a good one changes it all.
	certify(t, dir, "shop", 4, "shop.example", "*.shop.example")
	os.Rename(filepath.Join(dir, "shop.pem"), filepath.Join(dir, "new.pem"))
	os.Rename(filepath.Join(dir, "shop.key"), filepath.Join(dir, "new.key"))
	put(t, filepath.Join(dir, "busy.html"), "{{status}} changed")
	put(t, file, strings.ReplaceAll(text, "shop.pem, key: shop.key", "new.pem, key: main.key"))
	p.signal(syscall.SIGHUP)
	p.await("keeping the current one", 1)
	present("a bad reload", outer, "www.shop.example", 2)
	put(t, file, strings.ReplaceAll(strings.ReplaceAll(text, "shop.pem, key: shop.key", "new.pem, key: new.key"), "/v1", "/v2"))
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	// A connection that the kernel had given to the old listener still gets its certificate.
	until(t, "new connections get the new certificate", func() bool {
		resp, _ := fetched(t, client("www.shop.example", false), "GET", url+"/", "Host", "www.shop.example")
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64() == 4
	})
	present("a good reload", outer, "www.shop.example", 4)
	if _, body := fetched(t, c, "GET", url+"/limited", "Host", "shop.example", "Accept", "text/html"); body != "429 changed" {
		t.Errorf("the page after a reload is %q", body)
	}
	if _, body := fetched(t, c, "GET", url+"/new", "Host", "shop.example"); body != "api.internal /v2/new shop.example" {
		t.Errorf("the origin got %q after a reload; want the new base path", body)
	}
	p.signal(os.Interrupt)
	p.ends(0)
}
