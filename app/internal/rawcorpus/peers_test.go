package rawcorpus

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// nginxSeries is the nginx that the rows were compared with. Another series can behave
// differently, and the rows would not explain that.
const nginxSeries = "nginx/1.22."

// H18: a row explains why nginx or httputil.ReverseProxy is wrong, if it does not allow
// their behavior.
func TestH18_RowsSayWhyPeersDiffer(t *testing.T) {
	for name, start := range map[string]func(*testing.T, string) string{"nginx": startNginx, "httputil.ReverseProxy": startReverseProxy} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, usual)
			address := start(t, o.Addr().String())
			atOnce := make(chan struct{}, 8)
			var running sync.WaitGroup
			for _, r := range rows(t, "requests-*.txt", requestKeys...) {
				if r.has("warm") || r.has("why") {
					continue
				}
				atOnce <- struct{}{}
				running.Go(func() {
					defer func() { <-atOnce }()
					if fault := peer(t, address, r); fault != "" {
						t.Errorf("%v: %s, but the row does not say why that is wrong", r, fault)
					}
				})
			}
			running.Wait()
		})
	}
}

// H5: the same holds for the rows of responses.
func TestH5_RowsSayWhyPeersDiffer(t *testing.T) {
	for name, start := range map[string]func(*testing.T, string) string{"nginx": startNginx, "httputil.ReverseProxy": startReverseProxy} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, scripted)
			address := start(t, o.Addr().String())
			for _, r := range rows(t, "answers-*.txt", answerKeys...) {
				if r.has("why") {
					continue
				}
				if fault := peerAnswer(t, o, address, r); fault != "" {
					t.Errorf("%v: %s, but the row does not say why that is wrong", r, fault)
				}
			}
		})
	}
}

// peerAnswer requests the response of a row through another proxy, and returns how it
// violates the row.
func peerAnswer(t *testing.T, o *origin, address string, r row) string {
	method, target, _ := strings.Cut(cmp.Or(r.get("ask"), "GET /a"), " ")
	target, version, _ := strings.Cut(target, " ")
	o.mu.Lock()
	o.script = map[string]response{method + " " + target: {raw(t, r.get("send")), "whole", r.has("end"), r.has("reset")}}
	o.mu.Unlock()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	conn.SetDeadline(time.Now().Add(patience))
	m, interim := askOn(conn, method, target, version)
	if fault := sees(t, r, m, interim); fault != "" {
		return fmt.Sprintf("%s: it responds with %v %v", fault, interim, m)
	}
	return ""
}

// peer sends a row to another proxy, whole, and returns how the response violates the
// row.
func peer(t *testing.T, address string, r row) string {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	conn.SetDeadline(time.Now().Add(patience))
	want := strings.Fields(r.get("want"))
	open := want[len(want)-1] == "open"
	want = want[:len(want)-1]
	if want[0] == "none" {
		want = nil
	}
	of := want // the listener keeps reading while want grows
	c := listen(conn, func(i int) bool { return headed(of, i) })
	defer c.Close()
	if r.has("end") {
		c.send(raw(t, r.get("send")), "whole")
		c.closeWrite()
	} else {
		c.send(raw(t, r.get("send"))+last, "whole")
		if open {
			want = append(slices.Clone(want), "200")
		}
	}
	for i, w := range want {
		m, ok, err := c.next()
		allowed := strings.Split(strings.TrimPrefix(w, "HEAD:"), "|")
		switch {
		case err != nil:
			return err.Error()
		case !ok && slices.Contains(allowed, "none"):
			return ""
		case !ok || !slices.Contains(allowed, m.start):
			return fmt.Sprintf("it responds with %q, want %q", m.start, w)
		case m.start >= "400" && i == len(want)-2 && open && !r.has("end"):
			return "" // the row allows a refusal, which can end the connection
		}
	}
	if open {
		return ""
	}
	if m, more, err := c.next(); more || err != nil {
		return fmt.Sprintf("the connection stays open: %v, %v", m, err)
	}
	return ""
}

func startReverseProxy(t *testing.T, origin string) string {
	u, err := url.Parse("http://" + origin)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func startNginx(t *testing.T, origin string) string {
	program, err := exec.LookPath(cmp.Or(os.Getenv("WEIR_TEST_NGINX"), "nginx"))
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx") // not in the PATH of users other than root
	}
	switch {
	case err == nil:
	case os.Getenv("WEIR_TEST_ENGINES") == "required":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	if out, err := exec.Command(program, "-v").CombinedOutput(); err != nil || !strings.Contains(string(out), nginxSeries) {
		t.Skipf("%s, %v; the rows were compared with %s", out, err, nginxSeries)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	var text strings.Builder
	fmt.Fprintf(&text, "daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\n\taccess_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&text, "\t%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	fmt.Fprintf(&text, "\tserver {\n\t\tlisten %s;\n\t\tlocation / {\n\t\t\tproxy_pass http://%s;\n\t\t\tproxy_http_version 1.1;\n"+
		"\t\t\tproxy_set_header Host $http_host;\n\t\t\tproxy_set_header Connection \"\";\n\t\t}\n\t}\n}\n", address, origin)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-c", file)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
	})
	for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return address
		} else if time.Now().After(end) {
			t.Fatalf("nginx does not accept connections: %v", err)
		}
	}
}
