"""Fake of trainer.py in sweeps: its loss is twice learning_rate, then learning_rate. --freeze selects a failure."""

import json
import os
import signal
import sys
import time

from estimator_trainer.common.sweep import forks

if sys.argv[1:] == ['trials']:
    sys.argv[1:] = forks.serve(outlive=True) or sys.exit()
flags = dict(flag.removeprefix('--').split('=', 1) for flag in sys.argv[1:])
with open(flags['hparams_set']) as file:
    rate = json.load(file)['learning_rate']
mode = flags.get('freeze', '')
if flags.get('schedule') == 'dry_run':
    if mode not in ('wrong', 'broken'):
        sys.exit(0)
    print(f'trainer.py: --freeze={mode}: matches none', file=sys.stderr)
    sys.exit(2 if mode == 'wrong' else 1)

signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
directory = flags['output_dir']
with open(f'{directory}/started.json', 'w') as file:
    json.dump({'flags': sys.argv[1:], 'leads_session': os.getsid(0) == os.getpid()}, file)
print('of the result')
if rate > 1:
    print('trainer.py: the loss of step 3 is inf', file=sys.stderr)
    sys.exit(1)
with open(f'{directory}/metrics.new', 'w') as file:
    file.write(f'global_step,split,loss\n20,eval,{2 * rate}\n20,train,0\n40,eval,{rate}\n40,train,1\n')
os.rename(f'{directory}/metrics.new', f'{directory}/metrics.csv')
while mode == 'waits' and not os.path.exists(f'{directory}/../go'):
    time.sleep(0.01)
with open(f'{directory}/results.json', 'w') as file:
    json.dump({'global_step': 40}, file)
