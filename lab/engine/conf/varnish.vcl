# Varnish before one origin. Beyond the backend nothing is set: what is not here
# is done by the VCL that is built in, as the documentation suggests. The lab
# fills in what is in double braces.
#
# What that means: requests that want the same wait for one fetch and get its
# body as it comes. An answer that may not be kept is remembered as such for two
# minutes (hit-for-miss). An expired object is kept for another 10 seconds
# (default_grace), or for what stale-while-revalidate says, and given while a
# new one is fetched. Connections to the backend are kept for 60 seconds.
vcl 4.1;

backend default {
	.host = "{{.OriginHost}}";
	.port = "{{.OriginPort}}";
{{- if .MaxCalls}}

	# How many fetches may run at once. One more fails with 503: Varnish 7.1 has
	# no queue for them.
	.max_connections = {{.MaxCalls}};
{{- end}}
}
