package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// Jobs configures where the jobs of routes with async are stored, and who runs them.
type Jobs struct {
	Dir         string   `yaml:"dir,omitempty" form:"dir" help:"Folder in which an embedded server stores the jobs. Set this or nats."`
	Durability  string   `yaml:"durability,omitempty" enum:"process,disk,majority" help:"What accepted jobs survive. process: kill -9 of the process. disk: power loss of the server. majority: power loss of a minority of several servers. With dir it is disk by default; process accepts about ten times as many jobs per second. With nats it states how the servers are configured: by default majority if replicas is above 1, otherwise process."`
	Listen      string   `yaml:"listen,omitempty" form:"address" help:"Host and port at which weir worker and weir jobs reach the jobs in dir. If it is not loopback, token_file is required."`
	TokenFile   string   `yaml:"token_file,omitempty" form:"file" help:"File with the token, one line of 16 to 4096 bytes: required from clients of listen, or sent to the servers in nats."`
	NATS        []string `yaml:"nats,omitempty" form:"nats" help:"NATS servers with JetStream that store the jobs. Set this or dir."`
	Credentials string   `yaml:"credentials_file,omitempty" form:"file" help:"Credentials file for the servers in nats, as written by nsc."`
	Username    string   `yaml:"username,omitempty" form:"name" help:"User name for the servers in nats. Needs password_file."`
	Password    string   `yaml:"password_file,omitempty" form:"file" help:"File with the password, one line."`
	TLS         *JobsTLS `yaml:"tls,omitempty" help:"Uses TLS with the servers in nats. Without settings in it, certificates are checked against the system's roots and the host in the address."`
	Replicas    int      `yaml:"replicas" default:"1" min:"1" max:"5" help:"Number of servers in nats that store each job: 1, 3 or 5."`
	Namespace   string   `yaml:"namespace" default:"default" form:"namespace" help:"Separates programs that share servers."`
	MaxBytes    Size     `yaml:"max_bytes" default:"8GiB" min:"1MiB" max:"1TiB" help:"Limit on the size of all jobs with their results. At 90 % of it, new jobs get 503."`
	MinFree     Size     `yaml:"min_free" default:"256MiB" min:"1MiB" max:"1TiB" help:"Free space to keep on the disk of dir. With less, new jobs get 503 and /readyz reports it; accepted jobs still run until a quarter is left, and routes without jobs still work."`
	Path        string   `yaml:"path" default:"/.weir/jobs/" form:"folder" help:"Path under which clients find their jobs, on every host. It takes precedence over all routes."`
	Workers     bool     `yaml:"workers" default:"true" help:"Runs jobs in this proxy. With false it only accepts jobs, and weir worker runs them."`
	Concurrency int      `yaml:"concurrency" default:"16" min:"1" max:"4096" help:"Jobs that this program runs concurrently for each route, and for each name in async.formerly. Jobs that must not be sent twice have a second limit of the same size. The limits of the route and the upstream also apply."`
}

// JobsTLS configures how the servers in nats are verified, and the client certificate.
type JobsTLS struct {
	CA         string `yaml:"ca,omitempty" form:"file" help:"PEM file with the certificates to trust instead of the system's roots."`
	Cert       string `yaml:"cert,omitempty" form:"file" help:"PEM file with the client certificate. Needs key."`
	Key        string `yaml:"key,omitempty" form:"file" help:"PEM file with its private key. Needs cert."`
	ServerName string `yaml:"server_name,omitempty" form:"host" help:"Name that certificates must match, instead of the address."`
}

// Async configures which requests of a route become jobs, and how these run.
type Async struct {
	Budget      Duration `yaml:"budget" default:"none" min:"1ms" max:"10m" none:"0" help:"Time after which a request becomes a job and is answered with 202. With none, only requests with Prefer: respond-async become jobs."`
	MaxWait     Duration `yaml:"max_wait" default:"30s" min:"1s" max:"10m" help:"Upper bound of Prefer: wait=N."`
	Attempts    int      `yaml:"attempts" default:"25" min:"1" max:"1000" help:"Maximum number of calls for a job of a safe request, or of one with Idempotency-Key. 429, 502, 503, 504 and broken connections are retried. With the default backoff, the retries span more than ten hours."`
	Unsafe      int      `yaml:"unsafe_attempts" default:"1" min:"1" max:"1000" help:"Maximum number of calls for all other jobs. Raise it only if a call may run twice."`
	Crashes     int      `yaml:"max_crashes" default:"5" min:"1" max:"1000" help:"How often the process that runs a job may die before the job is dead. At most attempts."`
	Backoff     Duration `yaml:"backoff" default:"1s" min:"1ms" max:"1h" help:"Delay before the second attempt. It doubles with each attempt. Retry-After of a response takes precedence."`
	MaxBackoff  Duration `yaml:"max_backoff" default:"1h" min:"1ms" max:"24h" help:"Upper bound of the delay between attempts."`
	Lease       Duration `yaml:"lease" default:"10s" min:"100ms" max:"1h" help:"Time after which a job whose worker died is started again. The first program that uses the route's jobs sets it."`
	Timeout     Duration `yaml:"timeout" default:"1h" min:"1ms" max:"24h" none:"-1" help:"Limit on one attempt, including its wait for admission. The route's timeout still bounds the time to the response headers: raise that too."`
	ResultTTL   Duration `yaml:"result_ttl" default:"24h" min:"1s" max:"8760h" help:"How long results are kept, and for how long an identical request gets the same job."`
	MaxQueued   int      `yaml:"max_queued" default:"100000" min:"1" max:"10000000" help:"Limit on unfinished jobs of the route. Beyond it, requests get 503."`
	MaxAge      Duration `yaml:"max_age" default:"24h" min:"1s" max:"8760h" none:"-1" help:"How long the oldest job may wait for a worker before new requests get 503."`
	MaxBody     Size     `yaml:"max_body" default:"512KiB" min:"1B" max:"29MiB" help:"Limit on the body of a request that becomes a job. Larger ones get 413."`
	MaxResult   Size     `yaml:"max_result" default:"512KiB" min:"1B" max:"29MiB" help:"Limit on the body of a job's response. A job with a larger one fails."`
	Principal   []string `yaml:"principal" default:"Authorization" form:"principal" help:"What identifies a client: request fields, and cookies as cookie:NAME (name the session cookie, because other cookies change). Only the client that submitted a job can see it; others get 404. A client that sends none of them is anonymous; with [] all clients are."`
	Anonymous   string   `yaml:"anonymous" default:"own" enum:"own,shared" help:"How jobs of anonymous clients are treated. own: each request is a separate job; a client that knows its address, which cannot be guessed, may read and cancel it. shared: identical safe requests without Authorization and Cookie are one job; all of them get its result, whatever its Cache-Control, and none can cancel it."`
	Formerly    []string `yaml:"formerly,omitempty" form:"route" help:"Former names of this route, which no other route with async may have now. The route serves and runs the jobs that were accepted under them, and requests with the same key join these. Otherwise they do not run, and a warning at the start lists them."`
	Credentials bool     `yaml:"forward_credentials" default:"true" help:"Stores Authorization, Cookie and the fields in principal with the job, for the call. With false they are omitted from both."`
}

// Options returns the options for the route's jobs.
func (a *Async) Options() jobshttp.RouteOptions {
	principal := a.Principal
	if principal == nil {
		principal = []string{} // nil is the default
	}
	return jobshttp.RouteOptions{
		Budget: max(time.Duration(a.Budget), 0), MaxWait: time.Duration(a.MaxWait), Formerly: a.Formerly,
		Attempts: a.Attempts, UnsafeAttempts: a.Unsafe,
		Queue: jobs.QueueOptions{
			MaxCrashes: a.Crashes,
			Lease:      time.Duration(a.Lease), AttemptTimeout: time.Duration(a.Timeout),
			RetryInitial: time.Duration(a.Backoff), RetryMax: time.Duration(a.MaxBackoff),
			ResultTTL: time.Duration(a.ResultTTL), MaxQueued: a.MaxQueued, MaxAge: time.Duration(a.MaxAge),
		},
		MaxBody: int(a.MaxBody), MaxResult: int(a.MaxResult),
		Principal: principal, ShareAnonymous: a.Anonymous == "shared", DropCredentials: !a.Credentials, AskCache: true,
	}
}

// A JobsAccess contains the settings of Jobs and the contents of the files they name.
type JobsAccess struct {
	Dir, Listen               string
	NATS                      []string
	Token, Username, Password string // never shown
	Credentials               string // the name of the file
	TLS                       *tls.Config
	Durability                jobs.Durability // 0: the default
	Replicas                  int
	Namespace, Path           string
	MaxBytes, MinFree         int64
	Workers                   bool
	Concurrency               int
	Routes                    map[string]jobshttp.RouteOptions // by name
}

// JobsAccess returns how the jobs are reached, nil for no jobs. It reads files, and its
// error joins their faults.
func (c *Config) JobsAccess() (*JobsAccess, error) {
	j := c.Jobs
	if j == nil {
		return nil, nil
	}
	a := &JobsAccess{
		Dir: j.Dir, Listen: j.Listen, NATS: j.NATS, Username: j.Username, Credentials: j.Credentials, Replicas: j.Replicas,
		Namespace: j.Namespace, Path: j.Path, MaxBytes: int64(j.MaxBytes), MinFree: int64(j.MinFree), Workers: j.Workers, Concurrency: j.Concurrency,
		Routes: map[string]jobshttp.RouteOptions{},
	}
	_ = a.Durability.UnmarshalText([]byte(j.Durability)) // the configuration has been checked
	for _, r := range c.Routes {
		if r.Async == nil {
			continue
		}
		o := r.Async.Options()
		if r.MaxBody != None {
			o.MaxBody = min(o.MaxBody, int(r.MaxBody)) // otherwise the job's call would be rejected
		}
		o.Reads = rules(r.Reads)
		if r.Deadline != nil {
			o.Drop = []string{r.Deadline.Header} // a job has more time than the client that waits for it
		}
		a.Routes[r.Name] = o
	}
	var errs [3]error
	if j.TokenFile != "" {
		a.Token, errs[0] = readToken(j.TokenFile)
	}
	if j.Password != "" {
		a.Password, errs[1] = readSecret(j.Password)
	}
	if t := j.TLS; t != nil {
		like := UpstreamTLS(*t)
		a.TLS, errs[2] = like.tlsConfig()
	}
	for i, part := range []string{"token_file", "password_file", "tls"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("jobs.%s: %w", part, errs[i])
		}
	}
	return a, errors.Join(errs[:]...)
}

// checkJobs checks the combination of the settings of jobs.
func (d *decoder) checkJobs(c *Config) {
	d.checkAsync(c)
	d.checkFormerly(c)
	j := c.Jobs
	if j == nil {
		return
	}
	const at = "jobs"
	own, others := d.nodes[at+".dir"] != nil, d.nodes[at+".nats"] != nil
	switch {
	case own && others:
		d.wrong(at+".nats", "", "cannot be combined with dir: jobs are stored in one of the two", "")
	case !own && !others && !d.doubtful(at):
		d.wrong(at+".dir", "", "is missing: name a folder for the jobs, or servers in nats", "")
	case own:
		d.checkEmbedded(j)
	case others:
		d.checkServers(c, j)
	}
	if j.TokenFile != "" {
		if _, err := readToken(j.TokenFile); err != nil {
			d.noFile(at+".token_file", j.TokenFile, err)
		} else if m := exposed(j.TokenFile); m != nil {
			d.warn(c, at+".token_file", j.TokenFile, m.problem)
		}
	}
}

// checkEmbedded checks the settings of an embedded server.
func (d *decoder) checkEmbedded(j *Jobs) {
	if j.Durability == "majority" {
		d.wrong("jobs.durability", j.Durability, "needs several servers, in nats; with dir it is disk or process", "")
	}
	if j.Replicas > 1 {
		d.wrong("jobs.replicas", fmt.Sprint(j.Replicas), "needs several servers, in nats", "")
	}
	for name, set := range map[string]bool{
		"credentials_file": j.Credentials != "", "username": j.Username != "", "password_file": j.Password != "", "tls": j.TLS != nil,
	} {
		if set {
			d.wrong("jobs."+name, "", "is for servers in nats", "")
		}
	}
	if j.Listen != "" && !onLoopback(j.Listen) && d.absent("jobs.token_file") {
		d.wrong("jobs.listen", j.Listen, "is not on loopback, and needs jobs.token_file", "")
	}
	if host, _, err := net.SplitHostPort(j.Listen); err == nil && host == "" {
		d.wrong("jobs.listen", j.Listen, "must have a host", "")
	}
}

// checkServers checks the settings of servers outside the program.
func (d *decoder) checkServers(c *Config, j *Jobs) {
	if j.Listen != "" {
		d.wrong("jobs.listen", j.Listen, "is for dir: the servers in nats have their own listeners", "")
	}
	if j.Replicas == 2 || j.Replicas == 4 {
		d.wrong("jobs.replicas", fmt.Sprint(j.Replicas), "must be 1, 3 or 5", "")
	}
	if j.Durability == "majority" && j.Replicas == 1 {
		d.wrong("jobs.durability", j.Durability, "needs replicas of 3 or 5", "")
	}
	if j.Credentials != "" {
		if _, err := os.Stat(j.Credentials); err != nil {
			d.noFile("jobs.credentials_file", j.Credentials, cannotRead(err))
		} else if m := exposed(j.Credentials); m != nil {
			d.warn(c, "jobs.credentials_file", j.Credentials, m.problem)
		}
	}
	d.checkPassword(c, "jobs", j.Username, j.Password)
	if t := j.TLS; t != nil {
		d.checkClientTLS(c, "jobs.tls", UpstreamTLS(*t))
	}
}

// checkFormerly checks that the jobs of each name belong to one route.
func (d *decoder) checkFormerly(c *Config) {
	const form = "; must be a former name of this route alone, such as formerly: [old-name]"
	present, first := map[string]int{}, map[string]string{}
	for i, r := range c.Routes {
		if r.Async != nil {
			present[r.Name] = i
		}
	}
	for i, r := range c.Routes {
		list := fmt.Sprintf("routes[%d].async.formerly", i)
		if r.Async == nil || d.faulty(list) {
			continue
		}
		for k, name := range r.Async.Formerly {
			at := d.item(fmt.Sprintf("%s[%d]", list, k))
			other, taken := present[name]
			switch {
			case name == r.Name:
				d.wrong(at, name, "is the route's own name"+form, "")
			case taken:
				d.wrong(at, name, fmt.Sprintf("is the name of routes[%d], which owns these jobs", other)+form, "")
			case first[name] != "":
				d.wrong(at, name, "is also in "+first[name]+""+form, "")
			default:
				first[name] = at
			}
		}
	}
}

// checkAsync checks the routes whose requests become jobs.
func (d *decoder) checkAsync(c *Config) {
	any := false
	for i := range c.Routes {
		r := &c.Routes[i]
		a := r.Async
		if a == nil {
			continue
		}
		any = true
		at := fmt.Sprintf("routes[%d].async", i)
		if c.Jobs == nil && d.absent("jobs") {
			d.wrong(at, "", "needs the section jobs, which configures where jobs are stored, such as jobs: {dir: jobs}", "")
		}
		if r.Name != "" && !jobshttp.ValidName(r.Name) && !d.faulty(fmt.Sprintf("routes[%d].name", i)) {
			d.wrong(fmt.Sprintf("routes[%d].name", i), r.Name, "names a route with async: it must be 1 to 59 letters, digits, dashes and underscores, and not end in -once", "")
		}
		if a.MaxBackoff < a.Backoff && !d.doubtful(at+".backoff") && !d.doubtful(at+".max_backoff") {
			d.wrong(at+".max_backoff", a.MaxBackoff.String(), fmt.Sprintf("must be at least backoff, which is %v", a.Backoff), "")
		}
		if a.Timeout != Duration(jobs.DefaultAttemptTimeout) && r.Timeout != None && (a.Timeout == None || a.Timeout > r.Timeout) {
			d.warn(c, at+".timeout", a.Timeout.String(), fmt.Sprintf("is longer than the timeout of the route, %v, which ends the call first", r.Timeout))
		}
		if r.Observe || c.Observe {
			d.warn(c, at, "", "has no effect in observe mode")
		}
	}
	if !any && c.Jobs != nil && !d.faulty("jobs") {
		d.warn(c, "jobs", "", "has no effect: no route has async")
	}
}
