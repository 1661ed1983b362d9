package weirredis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strconv"

	"github.com/redis/rueidis"
)

//go:embed lua/common.lua
var common string

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/extend.lua
var extendLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/write.lua
var writeLua string

//go:embed lua/invalidate.lua
var invalidateLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/spend.lua
var spendLua string

//go:embed lua/correct.lua
var correctLua string

//go:embed lua/announce.lua
var announceLua string

//go:embed lua/instances.lua
var instancesLua string

//go:embed lua/claims.lua
var claimsLua string

// The scripts, one for each operation.
var (
	acquireScript    = newScript(acquireLua)
	extendScript     = newScript(extendLua)
	settleScript     = newScript(settleLua)
	writeScript      = newScript(writeLua)
	invalidateScript = newScript(invalidateLua)
	takeScript       = newScript(takeLua)
	spendScript      = newScript(spendLua)
	correctScript    = newScript(correctLua)
	announceScript   = newScript(announceLua)
	instancesScript  = newScript(instancesLua)
	claimsScript     = newScript(claimsLua)
)

// A script is run by its hash. It is sent in full to a server that does not know it.
type script struct{ text, hash string }

func newScript(body string) *script {
	s := &script{text: common + "\n" + body}
	sum := sha1.Sum([]byte(s.text)) // the engine identifies a script by this
	s.hash = hex.EncodeToString(sum[:])
	return s
}

// run sends one command. If the server does not know the script, nothing has
// happened, and run sends a second command with the full script. Unlike rueidis' Lua,
// it sends no second command if the caller has left in the meantime.
func (s *script) run(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	n := int64(len(keys))
	r := c.Do(context.Background(), c.B().Evalsha().Sha1(s.hash).Numkeys(n).Key(keys...).Arg(args...).Build())
	if err, ok := rueidis.IsRedisErr(r.Error()); !ok || !err.IsNoScript() || ctx.Err() != nil {
		return r
	}
	return c.Do(context.Background(), c.B().Eval().Script(s.text).Numkeys(n).Key(keys...).Arg(args...).Build())
}

func decimal[N int | int64 | uint64](n N) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}
