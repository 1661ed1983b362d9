package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Telemetry configures where metrics and traces are sent.
type Telemetry struct {
	Service string `yaml:"service,omitempty" form:"name" help:"Name of this proxy (service.name). The default is OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES, otherwise weir."`
	OTLP    OTLP   `yaml:"otlp" required:"true" help:"Where metrics and traces are sent, and how. The protocol is OTLP over HTTP with protobuf. Settings that are missing here come from the OTEL_* variables of the OpenTelemetry SDK, or have its defaults."`
}

// OTLP configures the receiver of metrics and traces. Zero fields are not set.
type OTLP struct {
	Endpoint    string            `yaml:"endpoint,omitempty" form:"otlp" help:"Base URL, http or https; /v1/metrics and /v1/traces are appended. The default is OTEL_EXPORTER_OTLP_ENDPOINT and its variants, otherwise http://localhost:4318."`
	Headers     Fields            `yaml:"headers,omitempty" secret:"true" form:"field" help:"Fields of each export request. If any are set here or in headers_from_file, OTEL_EXPORTER_OTLP_HEADERS is ignored."`
	HeadersFrom map[string]string `yaml:"headers_from_file,omitempty" form:"field" help:"Like headers, with the name of a file that holds the value in one line: for keys and tokens."`
	Metrics     bool              `yaml:"metrics" default:"true" help:"Sends metrics."`
	Interval    Duration          `yaml:"interval,omitempty" min:"1s" max:"1h" help:"Interval between exports of metrics. The default is OTEL_METRIC_EXPORT_INTERVAL, otherwise 60s."`
	Traces      bool              `yaml:"traces" default:"true" help:"Sends traces: a span for each call and for each wait for another request's call, none for responses from memory. Calls carry traceparent."`
	Sample      *float64          `yaml:"sample,omitempty" min:"0" max:"1" help:"Share of the traces begun here that are sent. The default is OTEL_TRACES_SAMPLER, otherwise all. Traces of trusted clients are sent if the client's are."`
	Trust       bool              `yaml:"trust_clients" default:"false" help:"Continues the traces that clients name in traceparent, so that clients decide what is sampled. Otherwise each trace begins here and is linked to the client's. Use it only on listeners that only your own programs reach."`
	Timeout     Duration          `yaml:"timeout,omitempty" min:"100ms" max:"5m" help:"Limit on one export. The default is OTEL_EXPORTER_OTLP_TIMEOUT, otherwise 10s."`
	TLS         *OTLPTLS          `yaml:"tls,omitempty" help:"TLS for an https endpoint. By default, certificates are checked against the system's roots and the host in the URL."`
}

// OTLPTLS configures how the receiver is verified, and the client certificate.
type OTLPTLS struct {
	CA         string `yaml:"ca,omitempty" form:"file" help:"PEM file with the certificates to trust instead of the system's roots."`
	Cert       string `yaml:"cert,omitempty" form:"file" help:"PEM file with the client certificate. Needs key."`
	Key        string `yaml:"key,omitempty" form:"file" help:"PEM file with its private key. Needs cert."`
	ServerName string `yaml:"server_name,omitempty" form:"host" help:"Name that certificates must match, instead of the host in the URL."`
}

// A TelemetryAccess contains the settings of Telemetry and the contents of the files
// they name. Zero fields are not set.
type TelemetryAccess struct {
	Service, Endpoint string
	Headers           map[string]string // never shown
	Metrics, Traces   bool
	Interval, Timeout time.Duration
	Sample            *float64
	Trust             bool // continue the traces of clients
	TLS               *tls.Config
}

// TelemetryAccess returns where metrics and traces are sent, nil for nowhere. It reads
// files, and its error joins their faults.
func (c *Config) TelemetryAccess() (*TelemetryAccess, error) {
	if c.Telemetry == nil {
		return nil, nil
	}
	o := c.Telemetry.OTLP
	a := &TelemetryAccess{
		Service: c.Telemetry.Service, Endpoint: strings.TrimSuffix(o.Endpoint, "/"), Metrics: o.Metrics, Traces: o.Traces,
		Interval: time.Duration(o.Interval), Timeout: time.Duration(o.Timeout), Sample: o.Sample, Trust: o.Trust, Headers: map[string]string{},
	}
	var errs []error
	for name, values := range o.Headers {
		a.Headers[name] = strings.Join(values, ", ")
	}
	for name, file := range o.HeadersFrom {
		value, err := readHeader(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("telemetry.otlp.headers_from_file.%s: %s %w", name, file, err))
			continue
		}
		a.Headers[http.CanonicalHeaderKey(name)] = value
	}
	if t := o.TLS; t != nil {
		like := UpstreamTLS(*t)
		var err error
		if a.TLS, err = like.tlsConfig(); err != nil {
			errs = append(errs, fmt.Errorf("telemetry.otlp.tls: %w", err))
		}
	}
	return a, errors.Join(errs...)
}

// checkTelemetry checks the combination of the settings of telemetry.
func (d *decoder) checkTelemetry(c *Config) {
	if c.Telemetry == nil {
		return
	}
	o := c.Telemetry.OTLP
	const at = "telemetry.otlp"
	if !o.Metrics && !o.Traces {
		d.wrong(at+".traces", "false", "is false, and so is metrics, which leaves nothing to send; remove the section", "")
	}
	d.checkFiled(c, at+".headers_from_file.", o.HeadersFrom, o.Headers, "headers")
	if t := o.TLS; t != nil {
		if strings.HasPrefix(o.Endpoint, "http://") {
			d.wrong(at+".tls", "", "is for an https endpoint", "")
		}
		d.checkClientTLS(c, at+".tls", UpstreamTLS(*t))
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || o.Endpoint == "" {
		return
	}
	if u.Port() == "4317" {
		d.warn(c, at+".endpoint", o.Endpoint, "has the default port of OTLP over gRPC; the default port for HTTP is 4318")
	}
	if u.Scheme == "http" && len(o.Headers)+len(o.HeadersFrom) > 0 && !onLoopback(net.JoinHostPort(u.Hostname(), "0")) {
		d.warn(c, at+".endpoint", o.Endpoint, "sends the headers in the clear")
	}
}

// checkFiled checks header fields whose values are in files. set contains the fields
// whose values are in the section named by.
func (d *decoder) checkFiled(c *Config, at string, files map[string]string, set Fields, by string) {
	for name, file := range files {
		if _, err := readHeader(file); err != nil {
			d.noFile(at+name, file, err)
		} else if m := exposed(file); m != nil {
			d.warn(c, at+name, file, m.problem)
		}
		if _, both := set[name]; both {
			d.wrong(at+name, file, "is also in "+by+"", "")
		}
	}
}

// checkOTLP checks the base URL of a receiver.
func checkOTLP(text string) *mistake {
	const want = "must be http://host:port or https://host:port, with or without a path"
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil:
		return &mistake{problem: want + ", without a user and password; headers_from_file can send them"}
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && isHost(u.Hostname()):
		if port := u.Port(); strings.HasSuffix(u.Host, ":") || port != "" && (!isPort(port) || port == "0") {
			return &mistake{problem: want + ", with a port from 1 to 65535"}
		}
		if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
			return &mistake{problem: want + ", without a query and a fragment"}
		}
		for _, signal := range []string{"/v1/traces", "/v1/metrics"} {
			if base, ok := strings.CutSuffix(text, signal); ok {
				return &mistake{want + ", but without " + signal + ", which is appended", base}
			}
		}
		return nil
	case checkAddress(text) == nil && !strings.HasPrefix(text, ":") && checkOTLP("http://"+text) == nil:
		return &mistake{want, "http://" + text}
	}
	return &mistake{problem: want}
}
