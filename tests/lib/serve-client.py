# serve-client.py - a client of megatron serve, without packages.
#
#   python3 serve-client.py PART ADDRESS KEY [WORD...]
#
# Prints "PASS text" or "FAIL text" for each check of a part; a file that a part reads or writes is
# in the current directory.  KEY "-": none.
import http.client, json, os, random, socket, struct, sys, threading, time

part, address, key = sys.argv[1:4]
host, port = address.split('//')[1].split(':')
port = int(port)


def check(passed, text):
    print('PASS' if passed else 'FAIL', ' '.join(str(text).split())[:300], flush=True)


def same(got, want, text):
    check(got == want, text if got == want else '%s: got %r, want %r' % (text, got, want))


def headers(own=None):
    return own if own is not None else {} if key == '-' else {'Authorization': 'Bearer ' + key}


def ask(path, body=None, method=None, own=None, line=None):
    """Status and body, parsed if it is JSON."""
    line = line or http.client.HTTPConnection(host, port, timeout=100)
    line.request(method or ('POST' if body is not None else 'GET'), path,
                 body if isinstance(body, (bytes, str)) or body is None else json.dumps(body),
                 headers(own))
    answer = line.getresponse()
    text = answer.read()
    if answer.getheader('Content-Type', '').startswith('application/json'):
        text = json.loads(text)
    return answer.status, text


def complete(**body):
    status, answer = ask('/v1/completions', body)
    if status != 200:
        raise SystemExit('FAIL %r: %r' % (body, answer))
    return answer


def texts(answer):
    return [c['text'] for c in answer['choices']]


def stream(**body):
    """The events of a stream, the last one as a text."""
    line = http.client.HTTPConnection(host, port, timeout=100)
    line.request('POST', '/v1/completions', json.dumps(dict(body, stream=True)), headers())
    answer = line.getresponse()
    events = answer.read().decode('utf-8').split('\n\n')
    if answer.status != 200 or events.pop() != '' or not all(e.startswith('data: ') for e in events):
        raise SystemExit('FAIL status %d: %r' % (answer.status, events))
    events = [e[6:] for e in events]
    return [json.loads(e) for e in events[:-1]], events[-1]


def joined(events, n):
    """Texts, lists of tokens and reasons of the choices of a stream."""
    text, tokens, reason = [''] * n, [[] for _ in range(n)], [None] * n
    for event in events:
        for c in event['choices']:
            if reason[c['index']] is not None:
                check(False, 'an event behind the last one')
            text[c['index']] += c['text']
            if c['logprobs']:
                tokens[c['index']] += list(zip(*(c['logprobs'][k] for k in (
                    'tokens', 'token_logprobs', 'text_offset'))))
            reason[c['index']] = c['finish_reason']
    return text, tokens, reason


def metric(name):
    for row in ask('/metrics')[1].decode().split('\n'):
        if row.startswith(name + ' '):
            return float(row.split()[1])
    raise SystemExit('FAIL no metric ' + name)


def answers(status):
    rows = ask('/metrics')[1].decode().split('\n')
    return sum(int(r.split()[1]) for r in rows if 'answers_total{status="%d"}' % status in r)


def until(what, text):
    end = time.time() + 60
    while time.time() < end and not what():
        time.sleep(0.02)
    check(what(), text)


# ---- forms and fields

def forms():
    status, models = ask('/v1/models')
    name = models['data'][0]['id']
    same((status, name, models['data'][0]['max_model_len']), (200, 'tiny', 20001), 'models')
    same(ask('/health', own={}), (200, b''), 'health wants no key')
    for own in {}, {'Authorization': 'Bearer wrong'}, {'Authorization': key}:
        status, answer = ask('/v1/models', own=own)
        same((status, answer['error']['code']), (401, 'invalid_api_key'), 'no key, a wrong one')
    same(ask('/v1/models', own={'Authorization': 'bearer second-key'})[0], 200, 'another key')
    same(ask('/v1/completions', 'x' * 2000, own={})[0], 401, 'and no body is read without')

    wanted = [json.loads(row) for row in open('greedy')]
    a = complete(model='tiny', prompt='7 and', max_tokens=12, temperature=0)
    same(texts(a), [wanted[0]['text']], 'a text as megatron generate has it')
    same(sorted(a), ['choices', 'created', 'id', 'model', 'object', 'usage'], 'members of an answer')
    same((a['object'], a['model']), ('text_completion', 'tiny'), 'what it is')
    same(a['usage'], {'prompt_tokens': 5, 'completion_tokens': 12, 'total_tokens': 17}, 'usage')
    prompts = [w['prompt_tokens'] for w in wanted]
    same(texts(complete(prompt=prompts, max_tokens=12, temperature=0)), [w['text'] for w in wanted],
         'lists of ids')
    same(texts(complete(prompt=['7 and', prompts[1]], max_tokens=12, temperature=0)),
         [w['text'] for w in wanted[:2]], 'a text and ids')
    drawn = [json.loads(row) for row in open('drawn')]
    a = complete(prompt=[w['prompt'] for w in drawn], max_tokens=20, seed=8, top_k=20, top_p=0.9,
                 temperature=1.5, ignore_eos=True)
    same(texts(a), [w['text'] for w in drawn], 'drawn texts of a seed')

    a = complete(prompt=['1', '2'], n=3, max_tokens=16, seed=5, temperature=2)
    same([c['index'] for c in a['choices']], list(range(6)), 'choices in their order')
    check(len(set(texts(a))) == 6, 'which differ')
    same(texts(complete(prompt=['1', '2'], n=3, max_tokens=16, seed=5, temperature=2)), texts(a),
         'the same seed, the same texts')
    b = complete(prompt='1', max_tokens=16, temperature=2)
    check(texts(b) != texts(complete(prompt='1', max_tokens=16, temperature=2)),
          'no seed, another text')

    # ends of texts
    a = complete(prompt='7 and', n=64, max_tokens=100, seed=1, temperature=3, logprobs=1)
    ends = [c for c in a['choices'] if c['finish_reason'] == 'stop']
    check(len(ends) > 5 and all(
        c['logprobs']['tokens'][-1] == 'token_id:256' and len(c['logprobs']['tokens']) < 100
        for c in ends), 'a token that ends a text is listed')
    check(all(len(c['logprobs']['tokens']) == 100 for c in a['choices'] if c not in ends),
          'others have their length')
    a = complete(prompt='7 and', n=64, max_tokens=100, seed=1, temperature=3, ignore_eos=True)
    same([c['finish_reason'] for c in a['choices']], ['length'] * 64, 'ignore_eos')

    # tokenizer
    same(ask('/tokenize', {'prompt': 'h\u00e9'})[1]['tokens'], [104, 195, 169], 'tokenize')
    same(ask('/detokenize', {'tokens': [104, 195, 169]})[1], {'prompt': 'h\u00e9'}, 'detokenize')
    info = ask('/tokenizer_info')[1]
    same((info['eos_token'], info['tokenizer_class'], '{% for' in info['chat_template']),
         ('<end>', 'ByteLevel', True), 'tokenizer_info')
    check(metric('megatron_generated_tokens_total') > 1000, 'metrics')
    for body, words in (({'messages': []}, 'messages: want a list'), ({}, 'messages: want a list'),
                        ({'messages': [{'content': 'a'}]}, 'messages[0]: want an object'),
                        ({'messages': [{'role': 'user', 'content': 5}]}, 'messages[0].content: want'),
                        ({'messages': [{'role': 'user', 'content': [{'type': 'image_url'}]}]},
                         'messages[0].content[0]: only parts of type text'),
                        ({'messages': [{'role': 'bad'}]}, 'chat template: line 1: no such role'),
                        ({'messages': [{'role': 'user', 'content': 'a'}], 'max_tokens': 0},
                         'max_tokens: want an integer from 1'),
                        ({'messages': [{'role': 'user', 'content': 'a'}], 'top_logprobs': 1},
                         'top_logprobs: want "logprobs": true'),
                        ({'messages': [{'role': 'user', 'content': 'a'}], 'echo': True},
                         'echo is not supported'),
                        ({'messages': [{'role': 'user', 'content': 'a'}], 'tools': [{}]},
                         'tools is not supported'),
                        ({'messages': [{'role': 'user', 'content': 'a'}], 'chat_template': 'x'},
                         'chat_template is not supported')):
        status, answer = ask('/v1/chat/completions', body)
        check(status == 400 and words in answer['error']['message'], 'chat: %s: %r' % (words, answer))


# ---- stop strings and streams

def streams():
    plain = complete(prompt='7 and', max_tokens=40, temperature=0)
    text = texts(plain)[0]
    stop = text[6:9]
    a = complete(prompt='7 and', max_tokens=40, temperature=0, stop=['nothing', stop])
    same((texts(a), a['choices'][0]['finish_reason']), ([text[:text.index(stop)]], 'stop'),
         'a stop string')
    a = complete(prompt=stop, max_tokens=10, temperature=0, stop=stop, echo=True)
    check(texts(a)[0].startswith(stop), 'an echoed prompt has none')
    for name, body in {
        'greedy': dict(prompt='7 and', max_tokens=40, temperature=0),
        'choices': dict(prompt=['1', '2'], n=2, max_tokens=30, seed=3, temperature=1),
        'bytes of all kinds': dict(prompt='\u00e9', n=8, max_tokens=60, seed=3, temperature=100),
        'stop strings': dict(prompt='7 and', n=4, max_tokens=40, seed=2, stop=['and', 'num', 'x']),
        'log probabilities': dict(prompt='7 \u00e9', n=3, max_tokens=30, seed=3, temperature=9,
                                  logprobs=2, stop='and'),
        'an echo': dict(prompt='7 \u00e9', max_tokens=9, temperature=0, echo=True),
        'an echo with log probabilities': dict(prompt=[55, 32, 195], n=2, max_tokens=9, seed=1,
                                               temperature=50, echo=True, logprobs=1),
        'an echo alone': dict(prompt='7 and', max_tokens=0, echo=True, logprobs=3),
    }.items():
        whole = complete(**body)
        events, last = stream(stream_options={'include_usage': True}, **body)
        text, tokens, reason = joined(events, len(whole['choices']))
        same(last, '[DONE]', name + ': the end')
        same(text, texts(whole), name + ': the same texts')
        same(reason, [c['finish_reason'] for c in whole['choices']], name + ': the same reasons')
        if whole['choices'][0]['logprobs']:
            same(tokens, [list(zip(*(c['logprobs'][k] for k in (
                'tokens', 'token_logprobs', 'text_offset')))) for c in whole['choices']],
                name + ': the same tokens')
        same((events[-1]['choices'], events[-1]['usage']), ([], whole['usage']), name + ': usage')
        check(all(e['usage'] is None for e in events[:-1]), name + ': no usage before')
    events, last = stream(prompt='7 and', max_tokens=2000, temperature=0, ignore_eos=True)
    check(len(events) >= 10, 'texts come in pieces: %d' % len(events))
    check(not any('usage' in e for e in events), 'without usage')


# ---- what lm-evaluation-harness sends and reads

def chats():
    """The template joins contents by blanks and ends with "and": "7" is the prompt "7 and"."""
    one = [{'role': 'user', 'content': '7'}]
    wanted = [json.loads(row) for row in open('greedy')]
    status, a = ask('/v1/chat/completions', {'model': 'tiny', 'messages': one, 'temperature': 0,
                                             'max_tokens': 12})
    same((status, a['object'], a['id'][:9]), (200, 'chat.completion', 'chatcmpl-'), 'a chat')
    choice = a['choices'][0]
    same(choice['message'], {'role': 'assistant', 'content': wanted[0]['text']}, 'with a message')
    same((choice['finish_reason'], choice['logprobs']), (wanted[0]['finish_reason'], None), 'its end')
    same(a['usage'], {'prompt_tokens': 5, 'completion_tokens': 12, 'total_tokens': 17}, 'its tokens')
    parts = [{'role': 'system', 'content': [{'type': 'text', 'text': '7'}]}]
    for more in {'messages': parts}, {'max_tokens': None, 'max_completion_tokens': 12}, {'n': 1}, \
            {'tools': [], 'tool_choice': 'none', 'echo': False, 'add_special_tokens': False}, \
            {'messages': one, 'add_generation_prompt': False, 'chat_template_kwargs': {'tail': ' and'}}:
        b = ask('/v1/chat/completions', dict({'messages': one, 'temperature': 0, 'max_tokens': 12},
                                             **more))[1]
        same(b.get('choices'), a['choices'], 'the same with %s' % sorted(more))
    b = ask('/v1/chat/completions', {'messages': one, 'temperature': 0, 'max_tokens': 3,
                                     'logprobs': True, 'top_logprobs': 2})[1]['choices'][0]
    c = complete(prompt='7 and', temperature=0, max_tokens=3, logprobs=2)['choices'][0]['logprobs']
    tokens = b['logprobs']['content']
    same([[t['token'] for t in tokens], [t['logprob'] for t in tokens]],
         [c['tokens'], c['token_logprobs']], 'log probabilities')
    same([bytes(t['bytes']).decode() for t in tokens], c['tokens'], 'bytes')
    same([{t['token']: t['logprob'] for t in token['top_logprobs']} for token in tokens],
         c['top_logprobs'], 'alternatives')
    line = http.client.HTTPConnection(host, port, timeout=100)
    line.request('POST', '/v1/chat/completions', json.dumps({
        'messages': one, 'temperature': 0, 'max_tokens': 12, 'stream': True,
        'stream_options': {'include_usage': True}}), headers())
    events = line.getresponse().read().decode().split('\n\n')
    same(events[-2:], ['data: [DONE]', ''], 'a stream ends')
    events = [json.loads(e[6:]) for e in events[:-2]]
    same({e['object'] for e in events}, {'chat.completion.chunk'}, 'it has chunks')
    deltas = [e['choices'][0]['delta'] for e in events if e['choices']]
    same([d.get('role') for d in deltas], ['assistant'] + [None] * (len(deltas) - 1), 'one role')
    same(''.join(d['content'] for d in deltas), wanted[0]['text'], 'and the text')
    same((events[-1]['choices'], events[-1]['usage']), ([], a['usage']), 'then the usage')
    same(ask('/tokenize', {'messages': one})[1]['tokens'],
         ask('/tokenize', {'prompt': '7 and'})[1]['tokens'], 'tokens of a chat')
    b = ask('/v1/chat/completions', {'messages': one, 'n': 2, 'seed': 3, 'stop': 'are'})[1]
    same([c['index'] for c in b['choices']], [0, 1], 'two choices, as many tokens as positions are '
         'left')


def harness():
    wanted = [json.loads(row) for row in open('scores')]
    prompts = [w['prompt_tokens'] for w in wanted]
    a = complete(model='tiny', prompt=prompts, temperature=0, max_tokens=1, logprobs=1, seed=1234,
                 echo=True)
    worst, shapes, top, greedy = 0, True, True, 0
    for c, w in zip(a['choices'], wanted):
        lists = c['logprobs']
        n = len(w['prompt_tokens'])
        shapes &= all(len(lists[k]) == n + 1 for k in lists) and lists['token_logprobs'][0] is None
        shapes &= lists['top_logprobs'][0] is None and len(lists) == 4
        for context in range(1, n):
            got = sum(lists['token_logprobs'][context:-1])
            worst = max(worst, abs(got - sum(w['prompt_log_probs'][context - 1:])))
        for name, number, tops in zip(lists['tokens'][1:], lists['token_logprobs'][1:],
                                      lists['top_logprobs'][1:]):
            best = max(tops.values())
            top &= tops[name] == number and 1 <= len(tops) <= 2
            greedy += best == number
    check(worst < 1e-6, 'sums of log probabilities: %g off' % worst)
    check(shapes, 'one token more than the prompt, the first without a number')
    check(top and greedy > 0, 'the top entry is the number of the token')
    a = complete(prompt=prompts[0], max_tokens=0, logprobs=1, echo=True)
    same((texts(a)[0], len(a['choices'][0]['logprobs']['tokens'])),
         (wanted[0]['prompt'], len(prompts[0])), 'the prompt alone')
    same(a['usage']['completion_tokens'], 0, 'nothing is generated')
    whole = complete(prompt=list(range(256)), max_tokens=0, logprobs=0, echo=True)
    names = whole['choices'][0]['logprobs']['tokens']
    check(len(set(names)) == 256 and names[255] == 'bytes:\\xff', 'distinct texts of tokens')


# ---- refusals

def refusals():
    p = {'prompt': 'a'}
    for body, status, text in (
        ('', 400, 'no JSON'), ('{', 400, 'no JSON'), ('[]', 400, 'no object'), ({}, 400, 'prompt'),
        ('\xff'.encode('latin-1'), 400, 'no JSON'), ('[' * 3000, 400, 'JSON'),
        (dict(p, model='other'), 404, '"other" is not here'),
        (dict(p, suffix='x'), 400, 'suffix'), (dict(p, logit_bias={'1': 2}), 400, 'logit_bias'),
        (dict(p, presence_penalty=1), 400, 'presence_penalty'),
        (dict(p, best_of=2), 400, 'best_of'), (dict(p, tools=[{}]), 400, 'tools'),
        (dict(p, response_format={'type': 'json_object'}), 400, 'response_format'),
        (dict(p, temperature=-1), 400, 'temperature'), (dict(p, n=0), 400, 'n: want'),
        (dict(p, logprobs=6), 400, 'logprobs: want an integer from 0 to 5'),
        (dict(p, max_tokens=20001), 400, '1 tokens and 20001 to generate are more than 20001'),
        ({'prompt': [257]}, 400, 'is 257, want 0 to 256'),
        ({'prompt': 'x' * 301}, 400, '301 tokens, want 300 at most'),
        ({'prompt': 'x' * 5000}, 413, 'want 4096 bytes at most'),
        (dict(p, n=201), 400, 'n: want'),
    ):
        got, answer = ask('/v1/completions', body)
        error = answer['error']
        check(got == status and text in error['message'] and len(error) == 4
              and '\n' not in error['message'], '%d: %s' % (got, error['message']))
    for path, body, status in ('/v1/completions', None, 405), ('/health', {}, 405), ('/x', {}, 404):
        same(ask(path, body)[0], status, path)
    same(texts(complete(prompt='a', suffix='', logit_bias=None, presence_penalty=0.0, best_of=1,
                        tools=[], user='me', max_tokens=1, temperature=0))[0],
         texts(complete(prompt='a', max_tokens=1, temperature=0))[0], 'neutral values')
    line = http.client.HTTPConnection(host, port, timeout=100)
    for i in range(3):
        same(ask('/v1/completions', dict(p, max_tokens=2) if i != 1 else '{', line=line)[0],
             400 if i == 1 else 200, 'one connection for several requests')


# ---- clients that leave, and that are slow

def raw(text):
    s = socket.create_connection((host, port), timeout=100)
    s.sendall(text.encode())
    return s


def post(body, length=None):
    text = body if isinstance(body, str) else json.dumps(body)
    return ('POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n'
            'Content-Length: %d\r\n\r\n%s' % (key, length or len(text), text))


def answer_of(text):
    """The first bytes of an answer; none if the connection is closed."""
    s = raw('')
    try:
        s.sendall(text.encode('latin-1'))
        return s.recv(200)
    except ConnectionError:
        return b''


endless = dict(prompt='7 and', max_tokens=19000, ignore_eos=True, n=4)


def leaving():
    for name, more in ('an answer', {}), ('a stream', {'stream': True}):
        s = raw(post(dict(endless, **more)))
        until(lambda: metric('megatron_texts_running') == 4, name + ': texts run')
        if not more:
            s.sendall(b'XY')
        before = answers(499)
        s.close()
        until(lambda: metric('megatron_texts_running') == 0, name + ': who leaves frees the places')
        until(lambda: answers(499) == before + 1, name + ': which is counted')
    s = [raw(post(dict(endless, n=12))) for _ in range(2)]
    until(lambda: metric('megatron_texts_waiting') >= 8, 'texts wait')
    for one in s:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        one.close()
    until(lambda: metric('megatron_texts_waiting') + metric('megatron_texts_running') == 0,
          'a connection that is reset')
    slow = [raw('POST /v1/comp'), raw(post('{"prompt"', 400)), raw('')]
    started = time.time()
    for s in slow:
        s.settimeout(60)
        try:
            got = s.recv(100)
            check(got == b'' or b' 408 ' in got, 'a slow client is cut off')
        except ConnectionError:
            check(True, 'a slow client is cut off')
    check(time.time() - started > 0.5, 'but not at once')
    idle = [raw('') for _ in range(20)]
    started = time.time()
    same(ask('/health')[0], 200, 'a connection that is one too many is answered')
    check(time.time() - started > 0.3, 'once others have ended')
    del idle
    status, answer = ask('/v1/completions', dict(endless, n=400))
    same((status, 'longer than' in str(answer)), (408, True), 'a request that takes too long')
    before = answers(408)
    events, last = stream(**dict(endless, n=400))
    until(lambda: answers(408) == before + 1, 'a stream is counted by its end')
    same((last, 'longer than' in str(events[-1]['error']['message'])), ('[DONE]', True),
         'a stream that takes too long')


# ---- many at a time, hostile ones among them

def hostile(kind):
    if kind == 0:
        s = raw(post('{"prompt": "abc", "max_tok'))
        return b' 400 ' in s.recv(100)
    if kind == 1:
        s = raw(post('x' * 100, 10 ** 12))
        return b' 413 ' in s.recv(100)
    if kind == 2:
        raw(post(dict(endless, stream=True))).close()
        return True
    if kind == 3:
        raw(post('{"prompt": "abc"', 100)).close()
        return True
    if kind == 4:
        s = raw(post(dict(endless, n=2)))
        s.shutdown(socket.SHUT_RDWR)
        return True
    if kind == 5:
        s = raw('nonsense\r\n\r\n')
        got = s.recv(100)
        return got == b'' or b' 400 ' in got or b' 404 ' in got or b' 401 ' in got
    if kind == 6:
        return ask('/v1/completions', {'prompt': [1e400, -1]})[0] == 400
    if kind == 7:
        return ask('/v1/completions', {'prompt': 'a', 'max_tokens': 10 ** 30})[0] == 400
    if kind == 8:
        return b'"error"' in answer_of(post('{"prompt": "\\ud800", "max_tokens": 1}'))
    if kind == 9:
        return ask('/v1/completions', b'{"prompt": "\xc3(\0"}')[0] == 400
    if kind == 10: # heads are limited
        return answer_of('GET /health HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n' % ('y' * 300000)) \
            [:12] in (b'', b'HTTP/1.1 431', b'HTTP/1.1 413', b'HTTP/1.1 400')
    if kind == 11:
        return b' 405 ' in answer_of('BREW /v1/completions HTTP/1.1\r\nHost: x\r\n'
                                     'Authorization: Bearer %s\r\n\r\n' % key)
    if kind == 12:
        return answer_of('POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n'
                         'Content-Length: -5\r\n\r\n{}' % key)[:12] in (b'', b'HTTP/1.1 400')
    if kind == 13: # the beginning of TLS
        return answer_of('\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03' + 'r' * 64 + '\r\n\r\n') \
            [:12] in (b'', b'HTTP/1.1 400')
    if kind == 14: # a byte at a time
        s = raw('')
        for c in post({'prompt': 'a', 'max_tokens': 1}):
            s.sendall(c.encode())
        return b' 200 ' in s.recv(100)
    s = raw('POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n'
            'Transfer-Encoding: chunked\r\n\r\n' % key)
    try:
        for _ in range(10):
            s.sendall(b'1000\r\n' + b'[' * 4096 + b'\r\n')
        s.sendall(b'0\r\n\r\n')
        return s.recv(100)[:12] in (b'', b'HTTP/1.1 413')
    except OSError:
        return True


KINDS = 16


def alike(got, want):
    """Equal choices, but for the last bits of log probabilities, which neighbours may change."""
    if isinstance(got, float) and isinstance(want, float):
        return abs(got - want) < 1e-5
    if type(got) is not type(want) or isinstance(got, (dict, list)) and len(got) != len(want):
        return False
    if isinstance(got, dict):
        return all(k in want and alike(got[k], want[k]) for k in got)
    return all(map(alike, got, want)) if isinstance(got, list) else got == want


def load(total):
    bodies = [dict(prompt='%d and' % i, max_tokens=5 + 7 * i % 60, seed=i, n=1 + i % 3,
                   temperature=i % 4 / 2, logprobs=i % 3 if i % 5 else None, echo=i % 2 == 0)
              for i in range(24)]
    wanted = [complete(**b)['choices'] for b in bodies]
    wrong, busy = [], [0]
    queue = list(range(int(total)))
    random.Random(7).shuffle(queue)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not queue:
                    return
                i = queue.pop()
            try:
                if i % 8 == 7:
                    if not hostile(i // 8 % KINDS):
                        wrong.append('hostile %d' % (i // 8 % KINDS))
                    continue
                k = i % len(bodies)
                while True:
                    if i % 3 == 0:
                        text, _, reason = joined(stream(**bodies[k])[0], len(wanted[k]))
                        good = (text, reason) == ([c['text'] for c in wanted[k]],
                                                  [c['finish_reason'] for c in wanted[k]])
                        break
                    status, answer = ask('/v1/completions', bodies[k])
                    if status != 503:
                        good = status == 200 and alike(answer['choices'], wanted[k])
                        break
                    busy[0] += 1
                    time.sleep(0.05)
                if not good:
                    wrong.append('body %d' % k)
            except BaseException as e:
                wrong.append('%d: %r' % (i, e))

    threads = [threading.Thread(target=work) for _ in range(64)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    same(sorted(wrong)[:5], [], '%s requests, 64 at a time, %d were refused once' % (total, busy[0]))
    until(lambda: metric('megatron_texts_waiting') + metric('megatron_texts_running') == 0,
          'nothing is left')


def size(pid, name):
    if name == 'fd':
        return len(os.listdir('/proc/%s/fd' % pid))
    for row in open('/proc/%s/status' % pid):
        if row.startswith(name + ':'):
            return int(row.split()[1])


def loads(pid, total):
    load(total)
    time.sleep(0.2)
    before = size(pid, 'VmRSS'), size(pid, 'fd')
    load(total)
    time.sleep(0.2)
    after = size(pid, 'VmRSS'), size(pid, 'fd')
    check(after[0] < before[0] + 4096, 'memory: %d KiB, then %d' % (before[0], after[0]))
    same(after[1] <= before[1] + 2, True, 'open files: %d, then %d' % (before[1], after[1]))


# ---- the end: SIGTERM to a process while a stream runs

def drain(pid, tokens, whole):
    line = http.client.HTTPConnection(host, port, timeout=100)
    line.request('POST', '/v1/completions', json.dumps(dict(
        prompt='7 and', max_tokens=int(tokens), ignore_eos=True, stream=True)), headers())
    answer = line.getresponse()
    first = answer.read(200)
    waiting = http.client.HTTPConnection(host, port, timeout=100)
    waiting.connect()
    same(ask('/health', line=waiting)[0], 200, 'a connection waits')
    os.kill(int(pid), 15)
    def refused():
        try:
            socket.create_connection((host, port), timeout=10).close()
            return False
        except OSError:
            return True
    until(refused, 'no connection is accepted')
    try:
        status = ask('/v1/completions', {'prompt': 'a'}, line=waiting)[0]
    except (http.client.HTTPException, OSError):
        status = 503
    same(status, 503, 'nor a request of an old one')
    events = (first + answer.read()).decode().split('\n\n')
    same(events[-2], 'data: [DONE]', 'the running stream ends')
    if whole == 'whole':
        check('"finish_reason":"length"' in events[-3], 'as it should')
    else:
        check('the server is stopping' in events[-3], 'with an error')


def less():
    for body, text in (dict(echo=True, logprobs=0), 'no log probabilities of prompts'), \
            (dict(logprobs=1), 'logprobs: want an integer from 0 to 0'):
        status, answer = ask('/v1/completions', dict(body, prompt='a'))
        same((status, text in answer['error']['message']), (400, True), text)
    same(len(complete(prompt='a', logprobs=0)['choices'][0]['logprobs']['tokens']), 16,
         'log probabilities of what is generated')


def special():
    wanted = [json.loads(row) for row in open('greedy')]
    body = dict(prompt=[w['prompt_tokens'] for w in wanted], max_tokens=12, temperature=0)
    own = [w['text'] for w in wanted]
    check(any('n' in text for text in own), 'there are special tokens')
    same(texts(complete(**body)), [text.replace('n', '') for text in own], 'they are left out')
    same(texts(complete(skip_special_tokens=False, **body)), own, 'unless they are wanted')
    events, last = stream(**body)
    same(joined(events, 3)[0], [text.replace('n', '') for text in own], 'of a stream, too')
    text = max(own, key=lambda t: len(t.replace('n', '')))
    short = text.replace('n', '')
    body = dict(body, prompt=body['prompt'][own.index(text)])
    same(texts(complete(stop=short[-3:], **body)), [short[:short.index(short[-3:])]],
         'a stop string finds the text that is shown')
    a = complete(logprobs=0, echo=True, **dict(body, prompt=[256, 110, 55]))
    lists = a['choices'][0]['logprobs']
    same((lists['tokens'][:3], lists['text_offset'][:4], texts(a)[0][:1]),
         (['<s>', 'n', '7'], [0, 0, 0, 1], '7'), 'ids of a prompt')
    a = complete(logprobs=0, echo=True, prompt='7 \u00e9n', max_tokens=1, temperature=0)
    lists = a['choices'][0]['logprobs']
    same((lists['tokens'][:3], lists['text_offset'], texts(a)[0][:4]),
         (['<s>', '7', ' '], [0, 0, 1, 2, 3, 3, 4], '7 \u00e9n'), 'a text that gets a first token')


def ranks():
    wanted = [json.loads(row) for row in open('greedy')]
    same(texts(complete(prompt=[w['prompt_tokens'] for w in wanted], max_tokens=12, temperature=0)),
         [w['text'] for w in wanted], 'texts of one rank')
    events, last = stream(prompt='7 and', max_tokens=12, temperature=0, stop=wanted[0]['text'][4:7])
    same(joined(events, 1)[0], [wanted[0]['text'][:4]], 'a stop string')
    s = raw(post(dict(endless, n=2)))
    until(lambda: metric('megatron_texts_running') == 2, 'texts run')
    s.close()
    until(lambda: metric('megatron_texts_running') == 0, 'who leaves frees the places')


globals()[part](*sys.argv[4:])
