package weirgrpc

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net"
	"reflect"
	"slices"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
)

// A reason says why a call shares nothing.
type reason uint8

const (
	shareable reason = iota
	notSafe
	byMetadata
	byPeer
	byScope
	byMessage
	bySize
	byOption
	byConnection
	reasonEnd
)

// reasonTexts complete the sentence "The call shares nothing: …".
var reasonTexts = [reasonEnd]string{
	notSafe:      "its method is not declared safe",
	byMetadata:   "it has metadata that is neither part of the identity nor declared irrelevant",
	byPeer:       "its peer has an identity, and the policy has no rule for it",
	byScope:      "Policy.Scope excluded it",
	byMessage:    "its message is no proto.Message, embeds one, or cannot be encoded",
	bySize:       "it is larger than Options.MaxRequest",
	byOption:     "it has a call option that is not known to be irrelevant",
	byConnection: "its connection is not declared to have one identity",
}

// authority is the metadata key of the name under which a client calls the server.
const authority = ":authority"

// An identity collects what tells calls of equal messages apart.
type identity struct {
	b []byte
	// shown is the metadata that a shared execution sees.
	shown metadata.MD
	// sent is what it sees of the metadata that earlier interceptors of a server forward
	// to other services; nil for nothing.
	sent metadata.MD
	// peer is what it sees of the peer; nil for nothing.
	peer *peer.Peer
	// offending are the metadata keys for which the call shares nothing.
	offending []string
}

// addMetadata adds md under the rules of p. It reports false if md has another key.
func (id *identity) addMetadata(p *policy, md metadata.MD) bool {
	id.shown = id.add(p, md)
	return len(id.offending) == 0
}

// addForwarded is addMetadata for the outgoing metadata of a server's call: interceptors
// put credentials of the caller there.
func (id *identity) addForwarded(ctx context.Context, p *policy) bool {
	md, ok := metadata.FromOutgoingContext(ctx)
	if sent := id.add(p, md); ok {
		id.sent = sent
	}
	return len(id.offending) == 0
}

// add adds md under the rules of p, and returns what an execution sees of it.
func (id *identity) add(p *policy, md metadata.MD) (shown metadata.MD) {
	var names []string
	for k := range md {
		switch {
		case k == authority && !p.IgnoreAuthority, slices.Contains(p.keys, k):
			names = append(names, k)
		case k == authority, slices.Contains(p.ignored, k):
		default:
			id.offending = append(id.offending, k)
		}
	}
	slices.Sort(id.offending)
	slices.Sort(names)
	shown = make(metadata.MD, len(names))
	id.number(len(names))
	for _, k := range names {
		values := slices.Clone(md[k])
		shown[k] = values
		id.text(k)
		id.number(len(values))
		for _, v := range values {
			id.text(v)
		}
	}
	return shown
}

func (id *identity) text(s string) { id.b = appendString(id.b, s) }
func (id *identity) number(n int)  { id.b = append(id.b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }

// addPeer adds the peer of a server's call under the rules of p. It reports false if
// the peer has an identity that they do not cover.
func (id *identity) addPeer(p *policy, from *peer.Peer) bool {
	id.peer = &peer.Peer{Addr: sharedAddr{}, LocalAddr: sharedAddr{}}
	var auth credentials.AuthInfo
	if from != nil {
		auth = from.AuthInfo
	}
	if p.Peer == PeerIgnored {
		id.text("")
		return true
	}
	switch auth := auth.(type) {
	case nil:
		id.text("")
		return true
	case credentials.TLSInfo:
		return id.addTLS(p, auth)
	default:
		id.text("")
		id.peer.AuthInfo = auth
		return reflect.TypeOf(auth) == insecureInfo
	}
}

// addTLS is addPeer for a TLS connection. A shared execution sees the identity of the
// client and not what belongs to one connection, such as its keys and its version of TLS.
func (id *identity) addTLS(p *policy, auth credentials.TLSInfo) bool {
	shown := credentials.TLSInfo{CommonAuthInfo: auth.CommonAuthInfo}
	shown.State.HandshakeComplete = true
	id.text("tls")
	if p.IgnoreAuthority {
		id.text("")
	} else {
		id.text(auth.State.ServerName)
		shown.State.ServerName = auth.State.ServerName
	}
	id.peer.AuthInfo = shown
	if len(auth.State.PeerCertificates) == 0 {
		id.number(0)
		return true
	}
	shown.SPIFFEID = auth.SPIFFEID // from the certificate
	shown.State.PeerCertificates, shown.State.VerifiedChains = auth.State.PeerCertificates, auth.State.VerifiedChains
	id.peer.AuthInfo = shown
	id.certificates(auth.State.PeerCertificates)
	id.number(len(auth.State.VerifiedChains))
	for _, chain := range auth.State.VerifiedChains {
		id.certificates(chain)
	}
	return p.Peer == PeerInKey
}

// certificates adds certificates by their hashes.
func (id *identity) certificates(all []*x509.Certificate) {
	id.number(len(all))
	for _, c := range all {
		sum := sha256.Sum256(c.Raw)
		id.b = append(id.b, sum[:]...)
	}
}

// insecureInfo is the type of the AuthInfo of connections without credentials.
var insecureInfo = func() reflect.Type {
	_, info, _ := insecure.NewCredentials().ServerHandshake(nil)
	return reflect.TypeOf(info)
}()

// sharedAddr is the address of the peer in a shared execution, which has several.
type sharedAddr struct{}

var _ net.Addr = sharedAddr{}

func (sharedAddr) Network() string { return "weirgrpc" }
func (sharedAddr) String() string  { return "shared" }

// messageOf returns v as a message. It reports false for nil, for what is no message, and
// for a type that embeds a message: it can have more than its encoding.
func messageOf(v any) (proto.Message, bool) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, false
	}
	r := m.ProtoReflect()
	return m, r.IsValid() && r.Interface() == m
}

// finish returns the key of a call of method with message req, for which id has been
// collected, or why the call shares nothing.
func (id *identity) finish(ctx context.Context, p *policy, method string, req any, most int) (Key, reason) {
	if p.Scope != nil {
		scope, ok := p.Scope(ctx, method)
		if !ok {
			return Key{}, byScope
		}
		id.text(scope)
	}
	m, ok := messageOf(req)
	if !ok {
		return Key{}, byMessage
	}
	id.text(string(m.ProtoReflect().Descriptor().FullName()))
	if len(id.b) > most || proto.Size(m) > most-len(id.b) {
		return Key{}, bySize
	}
	message, err := deterministic.Marshal(m)
	if err != nil {
		return Key{}, byMessage
	}
	return Key{Method: method, identity: string(id.b), message: string(message)}, shareable
}
