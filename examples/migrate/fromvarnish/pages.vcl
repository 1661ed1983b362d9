# Before.
vcl 4.1;

backend default {
	.host = "127.0.0.1";
	.port = "3000";
}

sub vcl_recv {
	if (req.method == "PURGE") {
		return (purge); # restrict it to an acl
	}
}

sub vcl_backend_response {
	if (beresp.status == 200) {
		set beresp.ttl = 1s;
		set beresp.grace = 1h;
	}
	if (beresp.status >= 500 && bereq.is_bgfetch) {
		return (abandon); # the object in grace stays
	}
}
